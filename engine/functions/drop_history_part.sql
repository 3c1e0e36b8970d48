-- finished and past its age -> removed, with JOBS_PRUNED for each tenant: drops a table of history whose jobs are all older than they are kept. Returns how
-- many jobs it held; null where it is not yet time, where it is gone already, or where it holds jobs of a tenant in p_others, which keeps its jobs for
-- another number of days now. It waits two seconds at most for those who read the table; nobody else waits for it. It runs as the owner of the
-- tables. Called by engine/history.py.
create or replace function drop_history_part(p_part text, p_others uuid[]) returns bigint language plpgsql volatile security definer
set search_path from current set lock_timeout = '2s' set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  expired constant boolean := exists (
    select from history_parts() h
    where h.name = p_part and h.day + h.keep_days + 1 <= (statement_timestamp() at time zone 'UTC')::date);
  dropped bigint;
begin
  if not expired then
    return null;
  end if;
  -- Nothing comes or goes from here on; who only reads goes on until the end.
  execute format('lock table only %I in share row exclusive mode', p_part);
  execute format($counts$
    with counted as materialized (select p.tenant_id, count(*) as jobs from only %1$I p group by p.tenant_id),
    facts as (
      select c.tenant_id, c.jobs, jsonb_build_object('jobs', c.jobs, 'by_status', jsonb_build_object('succeeded', c.jobs), 'attempts', 0, 'steps', 0,
        'first', (select f.id from only %1$I f where f.tenant_id = c.tenant_id order by f.id limit 1),
        'last', (select l.id from only %1$I l where l.tenant_id = c.tenant_id order by l.id desc limit 1)) as meta
      from counted c
      where not exists (select from counted o where o.tenant_id = any ($1))),
    written as (
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      select f.tenant_id, 'system', 'retention', 'JOBS_PRUNED', 'tenant', f.tenant_id, f.meta,
        audit_body(f.tenant_id, 'system', 'retention', 'info', 'JOBS_PRUNED', 'tenant', f.tenant_id::text, '', f.meta)
      from facts f)
    select case when exists (select from counted o where o.tenant_id = any ($1)) then null
                else (select coalesce(sum(f.jobs), 0) from facts f) end$counts$, p_part) into dropped using p_others;
  if dropped is not null then
    execute format('drop table %I', p_part);
  end if;
  return dropped;
end $$;
