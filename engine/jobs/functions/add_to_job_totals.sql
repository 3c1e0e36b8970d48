-- Adds to the totals of job types what these audit rows say, with how long jobs that were due waited for their first attempt and how long each
-- attempt ran, but for those that were lost. Called by meter_usage, which holds the lock.
create or replace function add_to_job_totals(p_rows audit_log[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  most_types constant int := 200 - (select count(*) from job_totals where job_type <> '(other)');
begin
  with events as materialized (
    select job_event_kind(r.action, r.level, r.meta) as kind, r.entity_id, r.meta
    from unnest(p_rows) r
    where r.entity_type = 'job'),
  ends as materialized (
    select e.kind, e.entity_id::uuid as job_id,
      case when e.meta->>'attempt' ~ '^[0-9]{1,9}$' then (e.meta->>'attempt')::int end as attempt_no
    from events e
    where e.kind in ('succeeded', 'failed', 'dead_lettered', 'canceled', 'retried')),
  happened as materialized (
    select e.kind, e.meta->>'job_type' as job_type, null::float8 as run, null::float8 as wait from events e where e.kind = 'enqueued'
    union all
    select e.kind, coalesce(j.job_type, '(deleted)'),
      -- A plain success has no row of its own: the job's says when it ran.
      case when a.status <> 'lost' then extract(epoch from a.finished_at - a.started_at)
           when a.job_id is null and j.attempt_count = e.attempt_no then extract(epoch from j.finished_at - j.started_at) end,
      case when e.attempt_no = 1 and j.id is not null
           then greatest(0, extract(epoch from coalesce(a.started_at, j.started_at)
             - greatest(j.created_at, case when a.job_id is null then j.due_at else a.due_at end))) end
    from ends e
    left join jobs j on j.id = e.job_id
    left join job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no),
  labels as (
    select n.job_type, case when t.job_type is null and n.nth > most_types then '(other)' else n.job_type end as label
    from (
      select x.job_type, row_number() over (order by exists (select from job_totals t where t.job_type = x.job_type), x.job_type) as nth
      from (select distinct job_type from happened) x) n
    left join job_totals t on t.job_type = n.job_type)
  insert into job_totals as t (job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled, waits, wait_seconds, runs,
    run_seconds)
  select l.label, count(*) filter (where h.kind = 'enqueued'), count(*) filter (where h.kind = 'succeeded'),
    count(*) filter (where h.kind = 'failed'), count(*) filter (where h.kind = 'dead_lettered'),
    count(*) filter (where h.kind = 'retried'), count(*) filter (where h.kind = 'canceled'),
    histogram(array_agg(h.wait)), coalesce(sum(h.wait), 0), histogram(array_agg(h.run)), coalesce(sum(h.run), 0)
  from happened h
  join labels l on l.job_type = h.job_type
  group by l.label
  on conflict (job_type) do update
  set enqueued = t.enqueued + excluded.enqueued, succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
      dead_lettered = t.dead_lettered + excluded.dead_lettered, retried = t.retried + excluded.retried,
      canceled = t.canceled + excluded.canceled,
      waits = array(select u.a + u.b from unnest(t.waits, excluded.waits) with ordinality u(a, b, n) order by u.n),
      wait_seconds = t.wait_seconds + excluded.wait_seconds,
      runs = array(select u.a + u.b from unnest(t.runs, excluded.runs) with ordinality u(a, b, n) order by u.n),
      run_seconds = t.run_seconds + excluded.run_seconds;
end $$;
