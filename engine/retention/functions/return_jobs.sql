-- Brings jobs back from history, and what runs among them started, so that they can be changed. Until the end of the caller's transaction nothing moves
-- into history. Only tables that may hold them are read: ids are ordered by time, and a run starts its children while it lasts, by clocks that may differ by a day.
-- It runs as the owner of the tables, since nobody else has a right to those of history: so it checks itself that a tenant's
-- request brings back its own. Locks: history, shared. Called by retry_jobs, delete_jobs, step_bulk_action and remove_tenant_rows.
create or replace function return_jobs(p_ids uuid[]) returns void language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  asking constant uuid := case when current_setting('role') = current_schema() || '_tenant' then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  absent uuid[];
  runs uuid[];
  hours_since_start int;
  hours_since_end int;
  part record;
  ids uuid[];
begin
  perform pg_advisory_xact_lock_shared(lock_class('history'), 0);
  absent := array(select u.id from unnest(p_ids) u(id) where not exists (select from only jobs j where j.id = u.id) order by u.id);
  select array_agg(r.id), ceil(extract(epoch from statement_timestamp() - min(r.created_at)) / 3600),
    floor(extract(epoch from statement_timestamp() - max(coalesce(r.finished_at, statement_timestamp()))) / 3600)
  into runs, hours_since_start, hours_since_end
  from (
    select j.id, j.created_at, j.finished_at from only jobs j where j.id = any (p_ids) and j.job_type = 'ENGINE_RUN'
    union all
    select j.id, j.created_at, j.finished_at from history_rows(absent) j where j.job_type = 'ENGINE_RUN') r;
  for part in
    select h.name, array(select u.id from unnest(absent) u(id) where u.id between h.min_id and h.max_id) as ids
    from history_parts_between(least(absent[1], history_horizon(hours_since_start + 24)),
      greatest(absent[cardinality(absent)], history_horizon(hours_since_end - 24))) h
  loop
    begin
      execute format('select array(
          select j.id from only %1$I j where j.id = any ($1) and ($3 is null or j.tenant_id = $3)
          union
          select j.id from only %1$I j where j.parent_run_id = any ($2) and ($3 is null or j.tenant_id = $3))', part.name)
      into ids using part.ids, runs, asking;
    exception
      when undefined_table then continue;  -- dropped meanwhile
    end;
    if ids <> '{}' then
      perform return_part(part.name, ids);
    end if;
  end loop;
end $$;
