-- Brings jobs back from history, and what runs among them started, so that they can be changed. Until the end of the caller's transaction nothing moves
-- into history. It runs as the owner of the tables, since nobody else has a right to those of history: so it checks itself that a tenant's
-- request brings back its own. Locks: history, shared. Called by retry_jobs, delete_jobs and remove_tenant_rows.
create or replace function return_jobs(p_ids uuid[]) returns void language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  asking constant uuid := case when current_setting('role') = current_schema() || '_tenant' then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  runs uuid[];
  absent uuid[];
begin
  perform pg_advisory_xact_lock_shared(lock_class('history'), 0);
  if not exists (select from pg_inherits i where i.inhparent = 'jobs'::regclass) then
    return;
  end if;
  absent := array(select u.id from unnest(p_ids) u(id) where not exists (select from only jobs j where j.id = u.id));
  runs := array(
    select j.id from only jobs j where j.id = any (p_ids) and j.job_type = 'ENGINE_RUN'
    union all
    select j.id from jobs j where j.id = any (absent) and j.job_type = 'ENGINE_RUN');
  if absent <> '{}' or runs <> '{}' then
    perform return_part(f.part, f.ids)
    from (
      select c.relname::text as part, array_agg(j.id) as ids
      from (
        select j.tableoid, j.id, j.tenant_id from jobs j where j.id = any (absent)
        union
        select j.tableoid, j.id, j.tenant_id from jobs j where j.parent_run_id = any (runs)) j
      join pg_class c on c.oid = j.tableoid
      where j.tableoid <> 'jobs'::regclass and (asking is null or j.tenant_id = asking)
      group by c.relname
      order by c.relname) f;
  end if;
end $$;
