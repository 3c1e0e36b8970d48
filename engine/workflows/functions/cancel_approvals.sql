-- pending -> canceled, for the open approvals of runs and intents that are over, with APPROVAL_DECIDED.
-- Called by runs_ended, delete_runs_of_jobs and engine/workflows/sql/withdraw_intent.sql.
create or replace function cancel_approvals(p_runs uuid[], p_decided_by text) returns void language plpgsql volatile
set search_path from current as $$
begin
  with canceled as (
    update approvals a set status = 'canceled', decided_at = clock_timestamp(), decided_by = p_decided_by
    where a.run_id = any (p_runs) and a.status = 'pending'
    returning a.id::text as id, a.tenant_id, a.title,
      jsonb_build_object('run_id', a.run_id, 'step', a.step, 'decision', 'canceled', 'decided_by', a.decided_by,
        'state', state_digest(a, '{}')) as meta
  )
  insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body)
  select c.tenant_id, 'system', 'engine', 'APPROVAL_DECIDED', 'approval', c.id, c.title, c.meta,
    audit_body(c.tenant_id, 'system', 'engine', 'info', 'APPROVAL_DECIDED', 'approval', c.id, c.title, c.meta)
  from canceled c;
end $$;
