-- Deletes intents that have ended, with their decided approvals, among the next of a tenant by id; then approvals that
-- nothing belongs to any more, such as those of child runs. An intent outlives its run, and today's are counted by policy:
-- none is deleted within two days. The audit log keeps who asked, who decided and how. Called by engine/retention/retention.py.
create or replace function prune_intents(p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_before timestamptz)
returns table (looked int, last uuid, intents int, approvals int) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  bygone timestamptz := least(p_before, clock_timestamp() - interval '2 days');
  batch uuid[] := array(
    select i.id from intents i where i.tenant_id = p_tenant and i.id > p_after and i.id < p_until order by i.id limit p_limit);
  doomed uuid[];
  more int;
  facts jsonb;
begin
  looked := cardinality(batch);
  last := batch[looked];
  doomed := array(
    select i.id from intents i
    where i.id = any (batch) and i.status in ('executed', 'failed', 'blocked', 'rejected') and i.updated_at < bygone
      and not exists (select from jobs j where j.id = i.id)
    order by i.id for update skip locked);
  delete from approvals a where a.run_id = any (doomed) and a.status <> 'pending';
  get diagnostics approvals = row_count;
  delete from intents i where i.id = any (doomed);
  get diagnostics intents = row_count;
  delete from approvals a
  where a.id = any (array(
    select o.id from approvals o
    where o.tenant_id = p_tenant and o.id > p_after and o.id < p_until and o.status <> 'pending' and o.decided_at < bygone
      and not exists (select from jobs j where j.id = o.run_id) and not exists (select from intents i where i.id = o.run_id)
    order by o.id limit p_limit for update skip locked));
  get diagnostics more = row_count;
  approvals := approvals + more;
  if intents + approvals > 0 then
    facts := jsonb_build_object('intents', intents, 'approvals', approvals, 'before', bygone);
    perform record_event(p_tenant, 'system', 'retention', 'info', 'INTENTS_PRUNED', 'tenant', p_tenant::text, '', facts);
  end if;
  return next;
end $$;
