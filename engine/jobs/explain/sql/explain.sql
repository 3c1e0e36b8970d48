-- Everything that decides whether these jobs run now, by the predicates of the claim, in one snapshot.
-- Without a tenant it looks across all (operators). SQL, because it reads all of it in one snapshot, on the database's clock.
with asked as materialized (
  select j.*
  from (
    select h.* from only atlas.jobs h where h.id = any (:ids::uuid[])
    union all
    select h.* from atlas.history_rows(array(
      select u.id from unnest(:ids::uuid[]) u(id) where not exists (select from only atlas.jobs a where a.id = u.id))) h) j
  where :tenant_id::uuid is null or j.tenant_id = :tenant_id
),
-- While the xmin horizon is held, jobs are counted among the newest alone, those behind :newest_after.
newest as materialized (
  select n.tenant_id, n.job_type, n.status, n.priority, n.created_at, n.next_retry_at, n.host_id, n.held_by, n.limit_id, n.has_slot
  from only atlas.jobs n
  where n.id > :newest_after::uuid and case when n.status in ('queued', 'running') then true else false end
),
running as materialized (
  select r.job_type, r.tenant_id, count(*) as count
  from (
    select a.job_type, a.tenant_id from only atlas.jobs a where :newest_after is null and a.status = 'running'
    union all
    select n.job_type, n.tenant_id from newest n where n.status = 'running') r
  -- read for a limit alone
  where exists (
      select from asked a
      join atlas.tenants t on t.id = a.tenant_id
      left join atlas.job_types y on y.key = a.job_type and y.concurrency_key is null
    where a.status = 'queued' and (y.concurrency is not null or t.limits ? 'in_flight'))
  group by r.job_type, r.tenant_id
),
-- Those ahead: the first thousand ready jobs of its tenant and type, whether limits hold them or not.
ahead as materialized (
  select h.tenant_id, h.job_type, h.priority, h.created_at
  from (select distinct tenant_id, job_type from asked where status = 'queued') t
  cross join lateral (
    (select a.tenant_id, a.job_type, a.priority, a.created_at from only atlas.jobs a
     where atlas.is_ready(a)
       and a.tenant_id = t.tenant_id and a.job_type = t.job_type
     order by a.priority desc, a.created_at limit case when :newest_after is null then 1000 else 0 end)
    union all
    (select a.tenant_id, a.job_type, a.priority, a.created_at from only atlas.jobs a
     where atlas.is_ready_limited(a)
       and a.tenant_id = t.tenant_id and a.job_type = t.job_type
     order by a.priority desc, a.created_at limit case when :newest_after is null then 1000 else 0 end)
    union all
    (select a.tenant_id, a.job_type, a.priority, a.created_at from newest a
     where a.status = 'queued' and a.next_retry_at is null and a.host_id is null and a.tenant_id = t.tenant_id and a.job_type = t.job_type
     order by a.priority desc, a.created_at limit 1000)) h
),
-- What holds a job by a rate or a key, how many are ahead of it there, and what has its slots or has not started.
held as materialized (
  select j.id, coalesce(j.held_by = j.limit_id, false) as of_type,
    case when j.held_by = j.limit_id then y.rate else t.limits->>'rate' end as rate,
    case when j.held_by = j.limit_id and y.concurrency_key is not null then y.concurrency end as most,
    case when j.held_by = j.limit_id then (
      (select count(*) from only atlas.jobs s
       where :newest_after is null and s.limit_id = j.limit_id and s.has_slot and s.status in ('queued', 'running'))
      + (select count(*) from newest s where s.limit_id = j.limit_id and s.has_slot)) end as slots,
    (select count(*) from (
       (select from only atlas.jobs a
        where :newest_after is null and a.held_by = j.held_by and a.status = 'queued' and a.next_retry_at >= '9999-01-01 00:00:00+00'
          and (a.priority > j.priority or (a.priority = j.priority and a.created_at < j.created_at))
        limit 1000)
       union all
       (select from newest a
        where a.held_by = j.held_by and a.status = 'queued' and a.next_retry_at >= '9999-01-01 00:00:00+00'
          and (a.priority > j.priority or (a.priority = j.priority and a.created_at < j.created_at))
        limit 1000)) h) as ahead,
    l.tokens, l.per_second, l.refilled_at, l.release_at
  from asked j
  join atlas.tenants t on t.id = j.tenant_id
  left join atlas.job_types y on y.key = j.job_type
  left join atlas.job_limits l on l.id = j.held_by
  where j.held_by is not null and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00'
),
shares as materialized (
  select t.tenant_id, t.job_type, s.used, s.share, s.before
  from (select distinct tenant_id, job_type from asked where status = 'queued' and :newest_after is null) t
  cross join lateral atlas.share_of(t.tenant_id, t.job_type) s
)
select j.id, j.status::text, j.job_type, j.claimed_by, j.started_at, j.finished_at, j.host_id, j.lost_count,
  j.careful and j.lost_count >= atlas.alone_after_losses() as alone, j.parent_run_id,
  j.cancel_requested_at, j.cancel_requested_by, j.dead_lettered_at, j.error->>'message' as error_message,
  j.status = 'canceled' and j.error->>'reason' = 'expired' as is_expired,
  atlas.is_compensated(j.job_type, j.status, j.error) as is_compensated, j.start_by, j.attempt_count, j.retry_count,
  atlas.retries_of(j.job_type, j.max_retries, j.retries_chosen) as max_retries,
  case when j.next_retry_at > clock_timestamp() then j.next_retry_at end as due_at,
  extract(epoch from clock_timestamp() - j.created_at)::float8 as waited,
  (select s.value from atlas.system_state s where s.key = 'atlas_online') as gate,
  case when j.status = 'queued' then atlas.pause_of(j.job_type, j.tenant_id, j.host_id, j.input) end as pause,
  case when j.next_retry_at >= '9999-12-31 00:00:00+00' and j.held_by is null then (
    select jsonb_build_object('id', e.id, 'name', e.name, 'key', e.key) from atlas.effects e
    where e.job_id = j.id and e.state = 'unknown' order by e.id limit 1) end as doubt,
  (select jsonb_agg(to_jsonb(w) order by w.name) from (
     select kind::text, name, event_name, child_id from atlas.workflow_steps where run_id = j.id and status = 'waiting' limit 5) w) as waits,
  (select count(*) from atlas.job_workers w
   where w.dead_at is null and w.lease_expires_at > clock_timestamp() and j.job_type = any (w.job_types)) as workers,
  exists (select from atlas.job_types y where y.key = j.job_type) as known_type,
  exists (select from atlas.job_definitions d where d.key = j.job_type and not d.is_active) as disabled,
  exists (select from atlas.job_definitions d where d.key = j.job_type) as is_definition,
  (select y.concurrency from atlas.job_types y where y.key = j.job_type and y.concurrency_key is null) as type_limit,
  (select (t.limits->>'in_flight')::int from atlas.tenants t where t.id = j.tenant_id) as tenant_limit,
  (select coalesce(sum(r.count), 0)::int from running r where r.job_type = j.job_type) as type_running,
  (select coalesce(sum(r.count), 0)::int from running r where r.tenant_id = j.tenant_id) as tenant_running,
  case when j.status = 'queued' then (
    select count(*) from ahead a
    where a.tenant_id = j.tenant_id and a.job_type = j.job_type and (a.priority > j.priority or (a.priority = j.priority and a.created_at < j.created_at))) end as ahead,
  (select t.slug from atlas.tenants t where t.id = j.tenant_id) as tenant, h.used as tenant_used, h.share as tenant_share, h.before as tenants_before,
  j.limit_key, g.of_type as held_by_type, g.rate as held_rate, g.most as held_most, g.slots as held_slots, g.ahead as held_ahead,
  greatest(clock_timestamp(), g.refilled_at + make_interval(secs => (g.ahead + 1 - g.tokens) / g.per_second)) as held_until
from asked j
left join held g on g.id = j.id
left join shares h on j.status = 'queued' and h.tenant_id = j.tenant_id and h.job_type = j.job_type;
