-- finished and past its age -> removed, with JOBS_PRUNED for each tenant: drops a table of history whose jobs are all older than they are kept, and those of
-- their attempts, steps and other rows. Returns how many jobs it held; null where it is not yet time, where it is gone already, or where it holds
-- jobs of a tenant in p_others, which keeps its jobs for another number of days now. It waits two seconds at most for those who read the tables; nobody else
-- waits for it. It counts by indexes alone, so that it does not read the jobs. It runs as the owner of the tables. Called by engine/retention/history.py.
create or replace function drop_history_part(p_part text, p_others uuid[]) returns bigint language plpgsql volatile security definer
set search_path from current set lock_timeout = '2s' set plan_cache_mode = force_custom_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off as $$
declare
  suffix constant text := substr(p_part, length('jobs') + 1);
  expired constant boolean := exists (
    select from history_parts() h
    where h.name = p_part and h.day + h.keep_days + 1 <= (statement_timestamp() at time zone 'UTC')::date);
  parts text[];
  side text;
  is_others boolean;
  dropped bigint;
begin
  if not expired then
    return null;
  end if;
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
  execute format($counts$
    with attempts_of as materialized (%2$s),
    -- all jobs are read once
    jobs_of as materialized (
      select p.tenant_id, count(*) as jobs, coalesce(sum(a.count), 0) as attempts
      from only %1$I p
      left join attempts_of a on a.job_id = p.id
      where p.status in ('succeeded', 'failed', 'canceled') group by p.tenant_id),
    unsuccessful as materialized (
      select p.tenant_id, count(*) filter (where p.status = 'failed') as failed, count(*) filter (where p.status = 'canceled') as canceled
      from only %1$I p where p.status in ('failed', 'canceled') group by p.tenant_id),
    steps_of as materialized (%3$s),
    facts as (
      select c.tenant_id, c.jobs, jsonb_build_object('jobs', c.jobs, 'by_status', (
          select jsonb_object_agg(s.status, s.count)
          from (values ('succeeded', c.jobs - coalesce(u.failed + u.canceled, 0)), ('failed', u.failed), ('canceled', u.canceled)) s(status, count)
          where s.count > 0),
        'attempts', c.attempts, 'steps', coalesce(s.count, 0),
        'first', (select f.id from only %1$I f where f.tenant_id = c.tenant_id and f.status in ('succeeded', 'failed', 'canceled') order by f.id limit 1),
        'last', (select l.id from only %1$I l where l.tenant_id = c.tenant_id and l.status in ('succeeded', 'failed', 'canceled') order by l.id desc limit 1)) as meta
      from jobs_of c
      left join unsuccessful u on u.tenant_id = c.tenant_id
      left join steps_of s on s.tenant_id = c.tenant_id),
    written as (
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      select f.tenant_id, 'system', 'retention', 'JOBS_PRUNED', 'tenant', f.tenant_id, f.meta,
        audit_body(f.tenant_id, 'system', 'retention', 'info', 'JOBS_PRUNED', 'tenant', f.tenant_id::text, '', f.meta)
      from facts f)
    select coalesce(sum(f.jobs), 0) from facts f$counts$, p_part,
    case when 'job_attempts' || suffix = any (parts)
         then format('select a.job_id, count(*)::int as count from only %I a group by a.job_id', 'job_attempts' || suffix)
         else 'select null::uuid as job_id, 0 as count' end,
    case when 'workflow_steps' || suffix = any (parts)
         then format('select s.tenant_id, count(*) as count from only %I s group by s.tenant_id', 'workflow_steps' || suffix)
         else 'select null::uuid as tenant_id, 0::bigint as count' end) into dropped;
  foreach side in array parts loop
    execute format('drop table %I', side);
  end loop;
  delete from history_changes c where c.part = substr(suffix, length('_history_') + 1);
  delete from history_bounds b where b.part = substr(suffix, length('_history_') + 1);
  return dropped;
end $$;
