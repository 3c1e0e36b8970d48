-- Moves up to p_limit jobs of a tenant back from history, of those that were filed for another number of days than it keeps its jobs for now.
-- Retention then removes them, or they are filed anew. Returns how many. It runs as the owner of the tables. Called by engine/history.py.
create or replace function return_from_history(p_tenant uuid, p_keep_days int, p_limit int) returns int language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  part text;
  count int;
begin
  for part in select h.name from history_parts() h where h.keep_days is distinct from p_keep_days order by h.day loop
    execute format(
      'with gone as (
         delete from %1$I j where j.ctid = any (array(
           select o.ctid from %1$I o where o.tenant_id = $1 order by o.id limit $2 for update skip locked)) returning j.*)
       insert into jobs select * from gone', part) using p_tenant, p_limit;
    get diagnostics count = row_count;
    if count > 0 then
      return count;
    end if;
  end loop;
  return 0;
end $$;
