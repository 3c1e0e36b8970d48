-- Tenants side by side, those with the most active jobs first, after one of them: the depth of their queues, what runs, what happened in the
-- last minutes. Active jobs and dead letters are those that the meter counts. Of a queue the oldest by id, up to a bound, are
-- looked at: where it has more, `is_partial` is true, its length is what the meter counts, and a part of it waits as of those.
-- With `reads_queues` false, no queue and no running job is looked at. Looks across tenants (operators).
-- SQL, because it counts in bounded reads, tenant by tenant, on the database's clock.
with counted as (
  select t.id, t.slug, t.name, greatest(0, coalesce(c.jobs - c.succeeded - c.failed - c.canceled, 0)) as active,
    coalesce(c.dead_letters, 0) as dead_letters
  from atlas.tenants t
  left join atlas.job_counts c on c.tenant_id = t.id
),
page as materialized (
  select * from counted
  where :before_active::bigint is null or (active, id) < (:before_active, :before_id::uuid)
  order by active desc, id desc
  limit :limit::int
),
running as materialized (
  select tenant_id, count(*) as count
  from (select tenant_id from only atlas.jobs where status = 'running' limit case when :reads_queues::boolean then 100000 else 0 end) r
  group by tenant_id
)
select p.id, p.slug, p.name, p.active, p.dead_letters, q.is_partial, q.oldest_due_at, coalesce(r.count, 0) as running,
  case when q.is_partial then q.queued::bigint * greatest(:most, p.active - coalesce(r.count, 0)) / :most else q.queued end as queued,
  case when q.is_partial then q.waiting::bigint * greatest(:most, p.active - coalesce(r.count, 0)) / :most else q.waiting end as waiting,
  f.enqueued_per_minute, f.finished_per_minute, f.finished, f.failed
from page p
left join running r on r.tenant_id = p.id
cross join lateral (
  select count(*) >= :most::int as is_partial, count(*) filter (where w.since <= statement_timestamp()) as queued,
    count(*) filter (where w.since > statement_timestamp()) as waiting, min(w.since) filter (where w.since <= statement_timestamp()) as oldest_due_at
  from (
    select coalesce(j.next_retry_at, j.due_at, j.created_at) as since from only atlas.jobs j
    where j.status = 'queued' and j.tenant_id = p.id
    order by j.id limit case when :reads_queues then :most else 0 end) w) q
cross join lateral (
  select coalesce(sum(s.enqueued) filter (where s.begins_at >= date_trunc('minute', statement_timestamp()) - make_interval(mins => :minutes::int)
      and s.begins_at < date_trunc('minute', statement_timestamp())), 0)::float8 / :minutes as enqueued_per_minute,
    coalesce(sum(s.succeeded + s.failed + s.dead_lettered + s.canceled) filter (
      where s.begins_at >= date_trunc('minute', statement_timestamp()) - make_interval(mins => :minutes)
        and s.begins_at < date_trunc('minute', statement_timestamp())), 0)::float8 / :minutes as finished_per_minute,
    coalesce(sum(s.succeeded + s.failed + s.dead_lettered + s.canceled), 0)::bigint as finished,
    coalesce(sum(s.failed + s.dead_lettered), 0)::bigint as failed
  from atlas.job_series s
  where s.tenant_id = p.id and s.step = 'minute' and s.begins_at >= date_trunc('minute', statement_timestamp()) - make_interval(mins => :recent_minutes::int)) f
order by p.active desc, p.id desc;
