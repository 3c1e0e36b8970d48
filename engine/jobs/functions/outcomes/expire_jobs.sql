-- queued -> canceled, because the latest time at which the job could start is over. Returns how many there were.
-- A claim starts no such job either: its update has the opposite condition, on the same clock. Jobs that are locked are skipped.
-- p_children: also jobs that a run waits for, whose row is then locked. Otherwise these are passed over, and count among the p_limit.
-- Locks: job rows, skipping locked ones, then the rows of their parents. Called by claim_with_limits, claim_leased and engine/jobs/lease.py.
create or replace function expire_jobs(p_limit int, p_children boolean) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off as $$
declare
  ids uuid[];
begin
  if (select true from only jobs where status = 'queued' and start_by <= statement_timestamp() order by start_by limit 1) is null then
    return 0;
  end if;
  ids := array(
    select e.id
    from (
      select id, parent_run_id from only jobs
      where status = 'queued' and start_by <= statement_timestamp() and tenant_id <> all (moving_tenants())
      order by start_by limit p_limit for update skip locked) e
    where p_children or e.parent_run_id is null);
  with ended as (
    update only jobs j
    set status = 'canceled', finished_at = clock_timestamp(), updated_at = clock_timestamp(), next_retry_at = null,
        -- One that a limit holds was due before.
        due_at = coalesce(nullif(j.next_retry_at, '9999-12-31 00:00:00+00'), j.due_at),
        error = jsonb_build_object('type', 'JobExpired', 'reason', 'expired', 'retryCount', j.retry_count,
          'message', format(case when j.start_by = j.finish_by then 'It expired: it was to finish by %s and had not begun.'
                                 else 'It expired: it was not started by %s.' end,
                            to_char(j.start_by at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"')))
    where j.id = any (ids) and case when j.status = 'queued' then j.start_by <= statement_timestamp() else false end
    returning j.id, j.tenant_id, j.error->>'message' as message,
      jsonb_build_object('reason', 'expired', 'start_by', j.start_by) as meta)
  insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
  select e.tenant_id, 'system', 'deadline', 'JOB_CANCELED', 'job', e.id, e.message, e.meta,
    audit_body(e.tenant_id, 'system', 'deadline', 'info', 'JOB_CANCELED', 'job', e.id::text, e.message, e.meta)
  from ended e;
  if p_children then
    perform wake_parents(array(
      select distinct j.parent_run_id from only jobs j
      where j.id = any (ids) and case when j.status = 'canceled' and j.parent_run_id is not null then true else false end));
  end if;
  return cardinality(ids);
end $$;
