-- finished and past its age -> removed, with JOBS_PRUNED for each tenant: drops a table of history whose jobs are all older than they are kept, and those of
-- their attempts, steps and other rows. Returns how many jobs it held; null where it is not yet time, where it is gone already, or where it holds
-- jobs of a tenant in p_others, which keeps its jobs for another number of days now. It counts before it locks the tables, and again only if one of them was
-- changed meanwhile. It waits two seconds at most for those who change a table, and a tenth of a second for those who read it, since whoever begins to read it then
-- waits behind this. Nobody else waits for it. It runs as the owner of the tables. Called by engine/retention/history.py.
create or replace function drop_history_part(p_part text, p_others uuid[]) returns bigint language plpgsql volatile security definer
set search_path from current set lock_timeout = '2s' set plan_cache_mode = force_custom_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off as $$
declare
  suffix constant text := substr(p_part, length('jobs') + 1);
  history_part constant text := substr(suffix, length('_history_') + 1);
  expired constant boolean := exists (
    select from history_parts() h
    where h.name = p_part and h.day + h.keep_days + 1 <= (statement_timestamp() at time zone 'UTC')::date);
  parts text[];
  side text;
  is_others boolean;
  changes uuid[];
  counts jsonb;
  dropped bigint;
begin
  if not expired then
    return null;
  end if;
  changes := array(select c.id from history_changes c where c.part = history_part order by c.id);
  counts := (select jsonb_agg(to_jsonb(c)) from count_history_part(history_part) c);
  parts := p_part || array(select t.name || suffix from history_tables() t where to_regclass(t.name || suffix) is not null);
  -- Nothing comes or goes from here on; who only reads goes on until the end.
  foreach side in array parts loop
    execute format('lock table only %I in share row exclusive mode', side);
  end loop;
  execute format($others$select exists (
    select from unnest($1) o(id) cross join lateral (
      select from only %I p where p.tenant_id = o.id and p.status in ('succeeded', 'failed', 'canceled') limit 1) f)$others$, p_part)
    into is_others using p_others;
  if is_others then
    return null;
  end if;
  if changes <> array(select c.id from history_changes c where c.part = history_part order by c.id) then
    counts := (select jsonb_agg(to_jsonb(c)) from count_history_part(history_part) c);
  end if;
  with facts as (
    select c.tenant_id, c.jobs, c.meta from jsonb_to_recordset(counts) c(tenant_id uuid, jobs bigint, meta jsonb)),
  written as (
    insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
    select f.tenant_id, 'system', 'retention', 'JOBS_PRUNED', 'tenant', f.tenant_id, f.meta,
      audit_body(f.tenant_id, 'system', 'retention', 'info', 'JOBS_PRUNED', 'tenant', f.tenant_id::text, '', f.meta)
    from facts f)
  select coalesce(sum(f.jobs), 0) into dropped from facts f;
  perform set_config('lock_timeout', '100ms', true);
  foreach side in array parts loop
    execute format('drop table %I', side);
  end loop;
  delete from history_changes c where c.part = history_part;
  delete from history_bounds b where b.part = history_part;
  delete from history_contents h where h.part = history_part;
  return dropped;
end $$;
