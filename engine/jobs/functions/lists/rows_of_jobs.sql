-- The rows of these jobs, wherever they are, in the table that p_row is a row of: `jobs`, or one of those that go into history with it, see history_tables. `from jobs` would look into every
-- table of history; this looks for jobs that are not in the hot table in the few that may hold them. It runs as the owner of the tables, since no one else has a right to those of history: so
-- it checks itself that a tenant's request reads a table that it may read, and rows of its own jobs.
-- Called by history_rows, job_runs_of, engine/policy/sql/runs_to_retry.sql, engine/jobs/actions/sql/refused_retries.sql and the typed client.
create or replace function rows_of_jobs(p_row anyelement, p_ids uuid[]) returns setof anyelement language plpgsql stable security definer
set search_path from current set jit = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  called constant text := pg_typeof(p_row)::text;
  key constant text := case when called = 'jobs' then 'id' else (select t.key from history_tables() t where t.name = called) end;
  is_tenant constant boolean := current_setting('role') = current_schema() || '_tenant';
  asking constant uuid := case when is_tenant then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  statement constant text := 'select r.* from only %1$I r where r.%2$I = any ($1) and ($2 is null or exists (select from only %3$I j where j.id = r.%2$I and j.tenant_id = $2))';
  absent uuid[];
  held record;
begin
  if key is null or (is_tenant and not has_table_privilege(current_setting('role'), called, 'select')) then
    raise exception 'permission denied for table %', called using errcode = 'insufficient_privilege';
  end if;
  -- A tenant that is not named sees nothing, as by the policies.
  if is_tenant and asking is null then
    return;
  end if;
  return query execute format(statement, called, key, 'jobs') using p_ids, asking;
  absent := array(select u.id from unnest(p_ids) u(id) where not exists (select from only jobs j where j.id = u.id) order by u.id);
  if absent = '{}' then
    return;
  end if;
  for held in
    select replace(h.name, 'jobs_history_', called || '_history_') as part, h.name as jobs,
      array(select u.id from unnest(absent) u(id) where u.id between h.min_id and h.max_id) as ids
    from history_parts_between(absent[1], absent[cardinality(absent)]) h
  loop
    continue when held.ids = '{}' or to_regclass(held.part) is null;
    begin
      return query execute format(statement, held.part, key, held.jobs) using held.ids, asking;
    exception
      when undefined_table then null;  -- dropped meanwhile
    end;
  end loop;
end $$;
