-- The table of history for rows of p_table whose jobs are kept for p_keep_days (null: for ever) and finished on p_day; it is created if there is none. A new
-- child locks its parent against other changes of its columns and against vacuum, and nobody who reads or writes. It runs as the owner of the
-- tables. Called by move_to_history.
create or replace function add_history_part(p_keep_days int, p_day date, p_table text default 'jobs') returns text language plpgsql volatile security definer
set search_path from current set lock_timeout = '2s' set client_min_messages = warning as $$
declare
  part constant text := format('%s_history_%s_%s', p_table, coalesce(p_keep_days::text, 'kept'), to_char(p_day, 'YYYYMMDD'));
  copied record;
begin
  if to_regclass(part) is not null then
    return part;
  end if;
  execute format('create table %I (%s) inherits (%I) with (fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.5)', part,
    case when p_table = 'jobs' then format($check$constraint %I check (
      status in ('succeeded', 'failed', 'canceled') and next_retry_at is null and dead_lettered_at is null)$check$, part || '_finished') end, p_table);
  -- Of jobs those of the lists that a finished job is in: see the function job_keys.
  for copied in
    select c.relname as name, pg_get_indexdef(c.oid) as definition
    from pg_index i
    join pg_class c on c.oid = i.indexrelid
    where i.indrelid = p_table::regclass and i.indisvalid
      and (p_table <> 'jobs' or c.relname in ('jobs_pkey', 'jobs_tenant_ended', 'jobs_tenant_failed_end', 'jobs_tenant_listed', 'jobs_correlation',
        'jobs_children_by_id', 'jobs_group'))
  loop
    copied.definition := regexp_replace(regexp_replace(copied.definition, ' INDEX \S+ ON \S+ ',
      format(' INDEX %I ON %I ', part || substr(copied.name, length(p_table) + 1), part)), ' WITH \(fillfactor=''?\d+''?\)', '');
    -- With the status a drop counts failed and canceled jobs by this index alone.
    execute case when copied.name = 'jobs_tenant_failed_end' then replace(copied.definition, ') WHERE', ') INCLUDE (status) WHERE') else copied.definition end;
  end loop;
  if p_table = 'workflow_steps' then
    -- A drop counts them by tenant.
    execute format('create index %I on %I (tenant_id)', part || '_tenant', part);
  end if;
  for copied in
    select a.attname as name, a.attstattarget as target from pg_attribute a
    where a.attrelid = p_table::regclass and a.attnum > 0 and not a.attisdropped and a.attstattarget >= 0
  loop
    execute format('alter table %I alter column %I set statistics %s', part, copied.name, copied.target);
  end loop;
  perform watch_history_table(part);
  return part;
end $$;
