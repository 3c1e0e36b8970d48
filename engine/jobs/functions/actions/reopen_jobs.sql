-- failed or canceled -> queued, as new, with JOB_RETRIED. Returns the jobs that it changed. A dedupe key that another active job holds is a
-- unique violation. The caller has locked the rows, and has looked at what may keep them from it. Called by retry_jobs.
-- The guard stands in a case, opaque to the planner, so that the key is the only way in.
create or replace function reopen_jobs(p_ids uuid[], p_actor_type text, p_actor_id text, p_meta jsonb) returns setof uuid language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
  return query
  with before as materialized (
    select j.id, p_meta || jsonb_build_object('status', j.status, 'dead_lettered', j.dead_lettered_at is not null) as facts
    from only jobs j where j.id = any (p_ids)),
  reopened as (
    update only jobs j
    set status = 'queued', retry_count = 0, lost_count = 0, careful = false, next_retry_at = null, due_at = clock_timestamp(),
        dead_lettered_at = null,
        -- Deadlines that are over would end it again.
        start_by = case when j.finish_by > clock_timestamp() then j.finish_by end,
        finish_by = case when j.finish_by > clock_timestamp() then j.finish_by end,
        finished_at = null, claimed_by = null, cancel_requested_at = null, cancel_requested_by = null, progress = null,
        updated_at = clock_timestamp()
    where j.id = any (p_ids) and case when j.status in ('failed', 'canceled') then true else false end
    returning j.id, j.tenant_id),
  written as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select r.tenant_id, p_actor_type::actor_type, p_actor_id, 'JOB_RETRIED', 'job', r.id, b.facts,
      audit_body(r.tenant_id, p_actor_type, p_actor_id, 'info', 'JOB_RETRIED', 'job', r.id::text, '', b.facts)
    from reopened r
    join before b on b.id = r.id)
  select r.id from reopened r;
end $$;
