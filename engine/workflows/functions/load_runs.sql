-- What runs have recorded, and what has come of what they wait for. A function only for its plan: by the keys, whatever the
-- statistics say. Called by engine/workflows/steps/step_store.py.
create or replace function load_runs(p_runs uuid[]) returns table (
  run_id uuid, branch text, "position" int, name text, kind text, status text, attempts int, output json, error jsonb, due boolean,
  child_id uuid, child_status text, child_output jsonb, child_error jsonb, event_name text, event_context jsonb,
  approval_status text, approval_by text, approval_comment text, event_gone boolean
) language plpgsql stable
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  select s.run_id, s.branch, s.position, s.name, s.kind::text, s.status::text, s.attempts, s.output, s.error,
    coalesce(s.wake_at <= clock_timestamp(), false), s.child_id, c.status::text, c.output, c.error, s.event_name, e.context,
    a.status::text, a.decided_by, a.comment, s.status = 'waiting' and s.event_id is not null and e.id is null
  from only workflow_steps s
  left join only jobs c on c.id = s.child_id and s.status = 'waiting'
  left join events e on e.id = s.event_id and s.status = 'waiting'
  left join approvals a on a.id = s.approval_id and s.status = 'waiting'
  where s.run_id = any (p_runs);
end $$;
