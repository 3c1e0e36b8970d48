-- Subtracts from what is stored of a part of history what returns took out of it: p_returned has what each wrote into its note, see return_part. The bounds of
-- these tenants are read anew. The caller runs as the owner of the tables. Called by note_history_change for a move, which replaces the notes.
create or replace function subtract_returned(p_part text, p_returned jsonb) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
begin
  execute format($subtract$
    with returned as (
      select r.tenant_id, sum(r.jobs) as jobs, sum(r.failed) as failed, sum(r.canceled) as canceled, sum(r.attempts) as attempts, sum(r.steps) as steps
      from jsonb_array_elements($2) n(tenants)
      cross join jsonb_to_recordset(n.tenants) r(tenant_id uuid, jobs bigint, failed bigint, canceled bigint, attempts bigint, steps bigint)
      group by r.tenant_id),
    emptied as (
      delete from history_contents h using returned r where h.part = $1 and h.tenant_id = r.tenant_id and h.jobs <= r.jobs)
    update history_contents h
    set jobs = h.jobs - r.jobs, failed = h.failed - r.failed, canceled = h.canceled - r.canceled, attempts = h.attempts - r.attempts,
      steps = h.steps - r.steps,
      min_id = coalesce((
        select f.id from only %1$I f where f.tenant_id = h.tenant_id and f.status in ('succeeded', 'failed', 'canceled') order by f.id limit 1), h.min_id),
      max_id = coalesce((
        select l.id from only %1$I l where l.tenant_id = h.tenant_id and l.status in ('succeeded', 'failed', 'canceled') order by l.id desc limit 1), h.max_id)
    from returned r where h.part = $1 and h.tenant_id = r.tenant_id and h.jobs > r.jobs$subtract$, 'jobs_history_' || p_part) using p_part, p_returned;
end $$;
