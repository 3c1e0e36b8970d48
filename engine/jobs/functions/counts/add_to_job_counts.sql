-- Adds to the counts of jobs what these audit rows say. Passes over rows that the last count of the table has seen.
-- Called by meter_usage, which holds the lock.
create or replace function add_to_job_counts(p_rows audit_log[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  counted constant pg_snapshot := (
    select (s.value->>'snapshot')::pg_snapshot from system_state s
    where s.key = 'job_counts' and (s.value->>'cluster')::bigint = system_identifier());
begin
  if counted is null then
    return;
  end if;
  with events as (
    select r.tenant_id, r.meta, job_event_kind(r.action, r.level, r.meta) as kind
    from unnest(p_rows) r
    where r.entity_type = 'job' and not pg_visible_in_snapshot(r.xid, counted)),
  changes as (
    select tenant_id, 1 as jobs, null as status, false as dead, 0 as entered from events where kind = 'enqueued'
    union all
    select tenant_id, 0, case kind when 'dead_lettered' then 'failed' else kind end, kind = 'dead_lettered', 1
    from events where kind in ('succeeded', 'failed', 'canceled', 'dead_lettered')
    union all
    select tenant_id, case kind when 'deleted' then -1 else 0 end, meta->>'status', coalesce((meta->>'dead_lettered')::boolean, false), -1
    from events where kind in ('reopened', 'deleted')
    union all
    select tenant_id, 0, null, true, -1 from events where kind = 'discarded'
    union all
    select r.tenant_id, -n.count, n.status, false, -n.count
    from unnest(p_rows) r
    cross join lateral (select key as status, value::int as count from jsonb_each_text(coalesce(r.meta->'by_status', '{}'))) n
    where r.action = 'JOBS_PRUNED' and not pg_visible_in_snapshot(r.xid, counted))
  insert into job_counts as c (tenant_id, jobs, succeeded, failed, canceled, dead_letters)
  select tenant_id, sum(jobs), coalesce(sum(entered) filter (where status = 'succeeded'), 0),
    coalesce(sum(entered) filter (where status = 'failed'), 0), coalesce(sum(entered) filter (where status = 'canceled'), 0),
    coalesce(sum(entered) filter (where dead), 0)
  from changes
  -- A tenant that was removed has no jobs any more.
  where tenant_id in (select n.id from tenants n)
  group by tenant_id
  on conflict (tenant_id) do update
  set jobs = c.jobs + excluded.jobs, succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed,
      canceled = c.canceled + excluded.canceled, dead_letters = c.dead_letters + excluded.dead_letters;
end $$;
