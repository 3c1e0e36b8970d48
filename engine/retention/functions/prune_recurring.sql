-- Deletes runs of recurring functions that ended before p_before. The last run of a function that is registered stays.
-- Called by engine/retention/retention.py.
create or replace function prune_recurring(p_tenant uuid, p_before timestamptz, p_limit int)
returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  runs int;
  facts jsonb;
begin
  delete from recurring_runs r
  where r.id = any (array(
    select o.id from recurring_runs o
    where o.tenant_id = p_tenant and o.finished_at < p_before
      and not exists (select from recurring_jobs s where s.tenant_id = p_tenant and s.id = o.recurring_id and s.run_id = o.id)
    order by o.finished_at limit p_limit for update of o skip locked));
  get diagnostics runs = row_count;
  if runs > 0 then
    facts := jsonb_build_object('runs', runs, 'before', p_before);
    perform record_event(p_tenant, 'system', 'retention', 'info', 'RECURRING_PRUNED', 'tenant', p_tenant::text, '', facts);
  end if;
  return runs;
end $$;
