-- Counts the jobs of every tenant anew, and the causes of dead letters. False: the meter is at work. Counts and snapshot are of one statement: what commits later is
-- added from the audit log by add_to_job_counts, which passes over what the snapshot shows.
-- `changed` is the server's own figure of inserted less deleted rows, to notice rows that came or went without the audit log.
-- `seconds` is how long the count took: it reads every job, and is repeated the less often the more there are.
-- Locks: metering. Called by engine/jobs/lists/counts.py.
create or replace function count_jobs() returns boolean language plpgsql volatile
set search_path from current set jit = off as $$
declare
  changed constant bigint := (
    select sum(pg_stat_get_tuples_inserted(t.id) - pg_stat_get_tuples_deleted(t.id))
    from (select 'jobs'::regclass::oid as id union all select i.inhrelid from pg_inherits i where i.inhparent = 'jobs'::regclass) t);
begin
  if not pg_try_advisory_xact_lock(lock_class('metering'), 0) then
    return false;
  end if;
  perform count_dead_letters(null);
  delete from job_counts;
  with counted as (
    insert into job_counts (tenant_id, jobs, succeeded, failed, canceled, dead_letters)
    select tenant_id, count(*), count(*) filter (where status = 'succeeded'), count(*) filter (where status = 'failed'),
      count(*) filter (where status = 'canceled'), count(dead_lettered_at)
    from jobs
    group by tenant_id
    returning jobs)
  insert into system_state as s (key, value, updated_by)
  select 'job_counts', jsonb_build_object('cluster', system_identifier(), 'snapshot', pg_current_snapshot(), 'changed', changed,
    'jobs', coalesce(sum(c.jobs), 0), 'counted_at', clock_timestamp(), 'causes', true,
    'seconds', extract(epoch from clock_timestamp() - statement_timestamp())), 'job counts'
  from counted c
  on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp();
  return true;
end $$;
