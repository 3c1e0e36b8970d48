-- Removes up to p_limit rows of a tenant that is being removed, all of one table, with an audit row that counts them: JOBS_PRUNED for
-- jobs, TENANT_ROWS_REMOVED for others. Ended jobs come first, with their attempts, secrets, mail ledger, effects, runs and steps, and the
-- personal values in their events; of a tenant that moved, also those that are queued. Then comes every other table with a tenant_id; those that others refer to come last.
-- Returns the table and the count: 0 jobs are jobs that have not ended. No row: only what remove_tenant.sql deletes is left.
-- The caller holds the tenant's row. Locks: job rows in ascending id. Called by engine/tenants/removal.py.
create or replace function remove_tenant_rows(p_tenant uuid, p_limit int, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (kind text, removed int) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  doomed uuid[];
  -- Its open jobs go on where it is now.
  is_moved constant boolean := exists (select from tenants t where t.id = p_tenant and t.moving_at is not null);
  facts jsonb;
  action text := 'TENANT_ROWS_REMOVED';
begin
  if not exists (select from tenants t where t.id = p_tenant and t.removing_at is not null) then
    raise exception 'tenant % is not being removed', p_tenant using errcode = 'invalid_parameter_value';
  end if;
  doomed := array(
    select j.id from jobs j where j.tenant_id = p_tenant and (j.status in ('succeeded', 'failed', 'canceled') or (is_moved and j.status = 'queued'))
    order by j.id limit p_limit for update);
  removed := cardinality(doomed);
  if removed > 0 then
    kind := 'jobs';
    action := 'JOBS_PRUNED';
    facts := jsonb_build_object('jobs', removed, 'first', doomed[1], 'last', doomed[removed],
      'by_status', (
        select jsonb_object_agg(s.status, s.count)
        from (select j.status, count(*) as count from jobs j where j.id = any (doomed) group by j.status) s),
      'personal_values', audit_erase(null, p_tenant, '{}', p_actor_type, p_actor_id, p_meta, doomed::text[]));
    perform return_jobs(doomed);
    -- The checks of the keys that refer to jobs are planned once, not for each job and key.
    perform set_config('plan_cache_mode', 'auto', true);
    delete from only jobs j where j.id = any (doomed);
  elsif exists (select from only jobs j where j.tenant_id = p_tenant and j.status = 'queued')
     or exists (select from only jobs j where j.tenant_id = p_tenant and j.status = 'running') then
    kind := 'jobs';
    return next;
    return;
  else
    for kind in
      select c.relname from pg_class c
      where c.relnamespace = current_schema()::text::regnamespace and c.relkind = 'r' and c.relname !~ '^audit_'
        -- history goes with the jobs
        and not exists (select from pg_inherits i where i.inhrelid = c.oid)
        -- what went with the jobs, and what is counted from the audit log until the end
        and c.relname <> all ('{jobs,job_secrets,mail_ledger,mail_slots,effects,workflow_runs,workflow_steps,job_counts,dead_letters,dead_letter_causes,history_contents}')
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
      order by (select count(*) from pg_constraint f where f.confrelid = c.oid and f.contype = 'f'), c.relname
    loop
      execute format(
        'with gone as (delete from %1$I where ctid = any (array(select ctid from %1$I where tenant_id = $1 limit $2 for update)) returning 1)
         select count(*) from gone', kind) into removed using p_tenant, p_limit;
      exit when removed > 0;
    end loop;
    if removed = 0 then
      kind := 'audit_private';
      removed := audit_erase(null, p_tenant, '{}', p_actor_type, p_actor_id, p_meta);
    end if;
    if removed = 0 then
      return;
    end if;
    facts := jsonb_build_object('kind', kind, 'rows', removed);
  end if;
  facts := p_meta || facts;
  perform record_event(p_tenant, p_actor_type, p_actor_id, 'info', action, 'tenant', p_tenant::text, '', facts);
  return next;
end $$;
