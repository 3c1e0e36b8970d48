-- What these audit rows say about jobs, with how long jobs that were due waited for their first attempt and how long each attempt ran,
-- but for those that were lost. Called by meter_usage.
create or replace function job_events(p_rows audit_log[]) returns job_event[] language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
begin
  return array(
    with events as materialized (
      select job_event_kind(r.action, r.level, r.meta) as kind, r.tenant_id, r.entity_id, r.meta, r.created_at
      from unnest(p_rows) r
      where r.entity_type = 'job'),
    ends as materialized (
      select e.kind, e.tenant_id, e.created_at, e.entity_id::uuid as job_id,
        case when e.meta->>'attempt' ~ '^[0-9]{1,9}$' then (e.meta->>'attempt')::int end as attempt_no
      from events e
      where e.kind in ('succeeded', 'failed', 'dead_lettered', 'canceled', 'retried'))
    select (e.tenant_id, e.meta->>'job_type', e.kind, e.created_at, null, null)::job_event from events e where e.kind = 'enqueued'
    union all
    select (e.tenant_id, coalesce(j.job_type, '(deleted)'), e.kind, e.created_at,
      case when e.attempt_no = 1 and j.id is not null
           then greatest(0, extract(epoch from coalesce(a.started_at, j.started_at)
             - greatest(j.created_at, case when a.job_id is null then j.due_at else a.due_at end))) end,
      -- A plain success has no row of its own: the job's says when it ran.
      case when a.status <> 'lost' then extract(epoch from a.finished_at - a.started_at)
           when a.job_id is null and j.attempt_count = e.attempt_no then extract(epoch from j.finished_at - j.started_at) end)::job_event
    from ends e
    left join only jobs j on j.id = e.job_id
    left join only job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no);
end $$;
