-- Moves up to p_limit jobs of a tenant back from history: those that were filed for another number of days than it keeps its jobs for now, and, where it does not
-- keep attempts and steps for as long (p_whole is false), those that have some. Retention then removes them, or they are filed anew.
-- Returns how many. It runs as the owner of the tables. Locks: history, shared. Called by engine/retention/history.py.
create or replace function return_from_history(
  p_tenant uuid, p_keep_days int, p_limit int, p_whole boolean default true
) returns int language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  part record;
  side record;
  ids uuid[];
begin
  perform pg_advisory_xact_lock_shared(lock_class('history'), 0);
  for part in
    select h.name, h.keep_days is distinct from p_keep_days as is_other from history_parts() h
    where h.keep_days is distinct from p_keep_days or not p_whole
    order by h.day
  loop
    if part.is_other then
      execute format('select array(select j.id from only %I j where j.tenant_id = $1 and j.status in (''succeeded'', ''failed'', ''canceled'')
        order by j.id limit $2 for update skip locked)', part.name) into ids using p_tenant, p_limit;
    else
      ids := '{}';
      for side in
        select t.key, t.name || substr(part.name, length('jobs') + 1) as part from history_tables() t
        where t.name in ('job_attempts', 'workflow_steps') and to_regclass(t.name || substr(part.name, length('jobs') + 1)) is not null
      loop
        exit when ids <> '{}';
        execute format('select array(select distinct j.id from only %I s join only %I j on j.id = s.%I where j.tenant_id = $1 limit $2)',
          side.part, part.name, side.key) into ids using p_tenant, p_limit;
      end loop;
    end if;
    if ids <> '{}' then
      return return_part(part.name, ids);
    end if;
  end loop;
  return 0;
end $$;
