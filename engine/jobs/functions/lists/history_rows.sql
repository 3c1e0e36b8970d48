-- The jobs in history with these ids. They are looked for only in the tables whose bounds hold an id of them (history_bounds): ids are ordered by time, so these
-- are few, however many tables there are. It runs as the owner of the tables, as history_keys does, and checks the tenant as that does.
-- Called by engine/jobs/sql/read_jobs.sql and engine/jobs/sql/explain.sql, with ids that are not in `only jobs`.
create or replace function history_rows(p_ids uuid[]) returns setof jobs language plpgsql stable security definer
set search_path from current set jit = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  is_tenant constant boolean := current_setting('role') = current_schema() || '_tenant';
  asking constant uuid := case when is_tenant then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  lowest uuid;
  highest uuid;
  held record;
begin
  -- A tenant that is not named sees nothing, as by the policies.
  if p_ids = '{}' or (is_tenant and asking is null) then
    return;
  end if;
  select (array_agg(u.id order by u.id))[1], (array_agg(u.id order by u.id desc))[1] into lowest, highest from unnest(p_ids) u(id);
  for held in
    select c.relname::text as part, array(
      select u.id from unnest(p_ids) u(id) where u.id >= coalesce(b.min_id, u.id) and u.id <= coalesce(b.max_id, u.id)) as ids
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    left join history_bounds b on b.part = substr(c.relname, length('jobs_history_') + 1)
    where i.inhparent = 'jobs'::regclass and lowest <= coalesce(b.max_id, lowest) and highest >= coalesce(b.min_id, highest)
  loop
    continue when held.ids = '{}';
    begin
      return query execute format('select j.* from only %I j where j.id = any ($1) and ($2 is null or j.tenant_id = $2)', held.part) using held.ids, asking;
    exception
      when undefined_table then null;  -- dropped meanwhile
    end;
  end loop;
end $$;
