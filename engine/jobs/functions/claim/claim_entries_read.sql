-- How many entries this transaction has read of the indexes that a claim walks from the head, dead ones too. Called by claim and find_places.
create or replace function claim_entries_read() returns bigint language plpgsql volatile
set search_path from current as $$
begin
  return coalesce(pg_stat_get_xact_tuples_returned('jobs_ready_by_tenant'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_ready_careful'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_due'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_expiring'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('limit_events_pkey'::regclass), 0);
end $$;
