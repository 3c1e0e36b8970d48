-- Stores what a part of history holds, by indexes alone: its oldest and newest id, and those of each tenant. How many jobs there are is not known then, and is
-- counted by a drop. The caller runs as the owner of the tables. Called by note_history_change for rows that nobody counted, and by watch_history_table for the parts of an earlier version.
create or replace function measure_history_part(p_part text) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  execute format($measure$
    with recursive tenants(id) as (
      (select j.tenant_id from only %1$I j where j.status in ('succeeded', 'failed', 'canceled') order by j.tenant_id, j.id limit 1)
      union all
      select (select j.tenant_id from only %1$I j
              where j.status in ('succeeded', 'failed', 'canceled') and j.tenant_id > t.id order by j.tenant_id, j.id limit 1)
      from tenants t where t.id is not null)
    insert into history_contents (part, tenant_id, min_id, max_id)
    select %2$L, t.id,
      (select j.id from only %1$I j where j.status in ('succeeded', 'failed', 'canceled') and j.tenant_id = t.id order by j.id limit 1),
      (select j.id from only %1$I j where j.status in ('succeeded', 'failed', 'canceled') and j.tenant_id = t.id order by j.id desc limit 1)
    from tenants t where t.id is not null
    on conflict (part, tenant_id) do update
    set min_id = excluded.min_id, max_id = excluded.max_id, jobs = null, failed = null, canceled = null, attempts = null, steps = null$measure$,
    'jobs_history_' || p_part, p_part);
  execute format($bounds$
    insert into history_bounds (part, min_id, max_id)
    select %2$L, f.id, l.id
    from (select j.id from only %1$I j order by j.id limit 1) f
    cross join (select j.id from only %1$I j order by j.id desc limit 1) l
    on conflict (part) do update set min_id = excluded.min_id, max_id = excluded.max_id$bounds$, 'jobs_history_' || p_part, p_part);
end $$;
