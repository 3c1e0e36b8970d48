-- What else ends with a run: its intent, its open approvals and, if it was canceled, its children.
-- Guards stand in a case, opaque to the planner, so that the key is the only way in.
-- Called in the transaction in which the job rows ended, by finish, cancel_jobs and reclaim_jobs.
create or replace function runs_ended(p_ids uuid[]) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
declare
  stopped uuid[];
  children uuid[];
begin
  update intents i
  set status = case when j.status = 'succeeded' then 'executed' else 'failed' end::intent_status, updated_at = clock_timestamp(),
      reason = case when j.status = 'canceled' then 'its run was canceled' else left(j.error->>'message', 500) end
  from only jobs j
  where j.id = i.id and i.id = any (p_ids)
    and case when i.status = 'queued' and j.status in ('succeeded', 'failed', 'canceled') then true else false end;
  if exists (select from approvals where run_id = any (p_ids) and status = 'pending') then
    perform cancel_approvals(p_ids, 'engine');
  end if;
  stopped := array(select id from only jobs where id = any (p_ids) and case when status = 'canceled' then true else false end);
  if cardinality(stopped) > 0 then
    children := array(select id from only jobs where parent_run_id = any (stopped) and status in ('queued', 'running'));
    if cardinality(children) > 0 then
      perform cancel_jobs(children, null, 'system', 'engine', '{"reason": "the run that started it was canceled"}');
    end if;
  end if;
end $$;
