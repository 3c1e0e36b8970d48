-- What these audit rows say about jobs, added up by tenant, job type and minute: the one rollup that usage, totals and series are added
-- from. Counts, waits and runs are those of events, in the minute of the event; the figures of attempts are in the minute in which the
-- attempt ended. Values of a handler's own that bear the name of the attempt and are no attempt number are passed over.
-- What the jobs of the attempts cost is known from then on: each cent is counted once.
-- The statement is built here, because each bucket of `duration_bounds` is a count of its own.
-- Called by meter_usage, which holds the lock.
create or replace function job_minutes(p_rows audit_log[]) returns job_minute[] language plpgsql volatile
set search_path from current set enable_seqscan = off set jit = off as $$
declare
  -- Turned round, because a bucket of width_bucket includes its lower bound, and these include their upper one.
  bounds constant float8[] := array(select -b from unnest(duration_bounds()) b order by b desc);
  found_minutes job_minute[];
begin
  execute format($query$
    with events as materialized (
      select r.id, r.tenant_id, r.entity_id, r.action, r.created_at, r.meta->>'job_type' as job_type,
        job_event_kind(r.action, r.level, r.meta) as kind,
        case when jsonb_typeof(r.meta->'attempt') = 'number' and r.meta->>'attempt' ~ '^[0-9]{1,9}$'
             then (r.meta->>'attempt')::int end as attempt_no
      from unnest($1) r
      where r.entity_type = 'job'),
    -- An attempt with several rows is counted by its last one.
    ends as materialized (
      select e.entity_id::uuid as job_id, e.tenant_id, e.action, e.created_at, e.attempt_no,
        case when e.kind in ('succeeded', 'failed', 'dead_lettered', 'canceled', 'retried') then e.kind end as kind,
        e.attempt_no is not null
          and row_number() over (partition by e.entity_id, e.attempt_no order by e.id desc) = 1 as is_attempt
      from events e
      where e.attempt_no is not null or e.kind in ('succeeded', 'failed', 'dead_lettered', 'canceled', 'retried')),
    -- A plain success has no row of its own: the job's says when it ran.
    details as materialized (
      select e.*, j.job_type, j.cost_cents, a.status::text as status, a.job_id is not null as has_row, o.is_own,
        coalesce(a.started_at, case when o.is_own then j.started_at end) as started_at,
        coalesce(a.finished_at, case when o.is_own then j.finished_at end) as finished_at,
        coalesce(a.started_at, j.started_at) - greatest(j.created_at, case when a.job_id is null then j.due_at else a.due_at end) as wait,
        case when o.is_own then j.tenant_id end as owner, j.created_at as made_at,
        case when a.job_id is not null then a.due_at when o.is_own then j.due_at end as due_at
      from ends e
      left join only jobs j on j.id = e.job_id
      left join only job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no
      cross join lateral (select j.id is not null and (a.job_id is not null or j.attempt_count = e.attempt_no) as is_own) o),
    -- Of a job that is deleted already, the audit log itself says the type.
    attempts as materialized (
      select d.job_id, d.attempt_no, d.cost_cents, coalesce(d.owner, d.tenant_id) as tenant_id,
        coalesce(case when d.is_own then d.job_type end, made.job_type, 'deleted') as job_type,
        coalesce(d.status, case when d.is_own then 'succeeded'
          when d.action in ('JOB_FAILED', 'JOB_EXHAUSTED_RETRIES', 'JOB_RETRY_SCHEDULED', 'WORKFLOW_FAILED', 'WORKFLOW_NOT_FOUND')
            then 'failed'
          when d.action in ('LEASE_EXPIRED', 'JOB_POISONED') then 'lost'
          when d.action = 'JOB_CANCELED' then 'canceled' else 'succeeded' end) as status,
        coalesce(d.finished_at, d.created_at) as finished_at,
        coalesce(extract(epoch from d.finished_at - d.started_at), 0) as run_seconds,
        -- Since it was due: after its wait, but not before it was made or the attempt before had ended.
        greatest(0, coalesce(extract(epoch from d.started_at - greatest(
          case when d.attempt_no <> 1 then b.finished_at when d.is_own then d.made_at end, d.due_at)), 0)) as queue_seconds
      from details d
      left join only job_attempts b on d.attempt_no > 1 and b.job_id = d.job_id and b.attempt_no = d.attempt_no - 1
      left join lateral (
        select m.meta->>'job_type' as job_type from audit_log m
        where m.entity_id = d.job_id::text and m.action = 'JOB_CREATED' limit 1) made on not d.is_own
      where d.is_attempt),
    -- A job's row only has the sum of its attempts.
    costs as (
      select l.job_id, l.cost_cents, l.cost_cents - coalesce(c.cents, 0) as cents, l.attempt_no
      from (
        select distinct on (t.job_id) t.job_id, t.attempt_no, t.cost_cents from attempts t
        order by t.job_id, t.finished_at desc) l
      left join only usage_costs c on c.job_id = l.job_id
      where l.cost_cents <> coalesce(c.cents, 0)),
    known as (
      insert into usage_costs (job_id, cents) select job_id, cost_cents from costs
      on conflict (job_id) do update set cents = excluded.cents),
    figures as (
      select e.tenant_id, e.job_type, e.created_at as happened_at, e.kind, null::float8 as wait, null::float8 as run, null as status,
        null::float8 as run_seconds, null::float8 as queue_seconds, null::bigint as cost_cents
      from events e
      where e.kind = 'enqueued'
      union all
      select d.tenant_id, coalesce(d.job_type, '(deleted)'), d.created_at, d.kind,
        case when d.attempt_no = 1 and d.made_at is not null then greatest(0, extract(epoch from d.wait)) end,
        case when d.status is distinct from 'lost' then extract(epoch from d.finished_at - d.started_at) end, null, null, null, null
      from details d
      where d.kind is not null
      union all
      select t.tenant_id, t.job_type, t.finished_at, null, null, null, t.status, t.run_seconds, t.queue_seconds, coalesce(c.cents, 0)
      from attempts t
      left join costs c on c.job_id = t.job_id and c.attempt_no = t.attempt_no),
    placed as (
      select f.*, %1$s - width_bucket(-f.wait, $2) as wait_place, %1$s - width_bucket(-f.run, $2) as run_place from figures f),
    minutes as (
      select (p.tenant_id, p.job_type, date_trunc('minute', p.happened_at),
        count(*) filter (where p.kind = 'enqueued'), count(*) filter (where p.kind = 'succeeded'),
        count(*) filter (where p.kind = 'failed'), count(*) filter (where p.kind = 'dead_lettered'),
        count(*) filter (where p.kind = 'retried'), count(*) filter (where p.kind = 'canceled'),
        case when count(p.wait) > 0 then array[%2$s] else '{}' end, coalesce(sum(p.wait), 0),
        case when count(p.run) > 0 then array[%3$s] else '{}' end, coalesce(sum(p.run), 0),
        count(p.status), count(*) filter (where p.status = 'succeeded'), count(*) filter (where p.status = 'failed'),
        count(*) filter (where p.status = 'timeout'), count(*) filter (where p.status = 'canceled'),
        count(*) filter (where p.status = 'lost'), coalesce(sum(p.run_seconds), 0), coalesce(sum(p.queue_seconds), 0),
        coalesce(sum(p.cost_cents), 0))::job_minute as minute
      from placed p
      group by p.tenant_id, p.job_type, date_trunc('minute', p.happened_at))
    select array_agg(m.minute) from minutes m$query$,
    cardinality(bounds) + 1,
    (select string_agg(format('count(*) filter (where p.wait_place = %s)', n), ', ') from generate_series(1, cardinality(bounds) + 1) n),
    (select string_agg(format('count(*) filter (where p.run_place = %s)', n), ', ') from generate_series(1, cardinality(bounds) + 1) n))
  into found_minutes using p_rows, bounds;
  return coalesce(found_minutes, '{}');
end $$;
