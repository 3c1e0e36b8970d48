-- The table of history for jobs that are kept for p_keep_days (null: for ever) and finished on p_day; it is created if there is none. A new child
-- locks `jobs` against other changes of its columns and against vacuum, and nobody who reads or writes. It runs as the owner of the tables.
-- Called by move_to_history.
create or replace function add_history_part(p_keep_days int, p_day date) returns text language plpgsql volatile security definer
set search_path from current set lock_timeout = '2s' set client_min_messages = warning as $$
declare
  part constant text := format('jobs_history_%s_%s', coalesce(p_keep_days::text, 'kept'), to_char(p_day, 'YYYYMMDD'));
  col record;
begin
  if to_regclass(part) is null then
    execute format($table$create table %I (constraint %I check (status = 'succeeded'))
      inherits (jobs) with (fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.5)$table$, part, part || '_succeeded');
    -- Those of the lists that such a job is in: see the function job_keys.
    execute format('create unique index %I on %I (id)', part || '_id', part);
    execute format('create index %I on %I (tenant_id, id)', part || '_tenant', part);
    execute format('create index %I on %I (correlation_id, tenant_id, id) where correlation_id is not null', part || '_correlation', part);
    for col in
      select a.attname as name, a.attstattarget as target from pg_attribute a
      where a.attrelid = 'jobs'::regclass and a.attnum > 0 and not a.attisdropped and a.attstattarget >= 0
    loop
      execute format('alter table %I alter column %I set statistics %s', part, col.name, col.target);
    end loop;
  end if;
  return part;
end $$;
