-- How many entries this transaction has read of the indexes that are counted along for limits, dead ones too. Called by count_limited_running and release_limit.
create or replace function limit_entries_read() returns bigint language plpgsql volatile
set search_path from current as $$
begin
  return coalesce(pg_stat_get_xact_tuples_returned('jobs_running'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_held'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_released'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_rate_released'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('limit_events_pkey'::regclass), 0);
end $$;
