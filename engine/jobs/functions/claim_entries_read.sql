-- How many entries of the indexes of ready and due jobs this transaction has read, dead ones too. Called by claim.
create or replace function claim_entries_read() returns bigint language sql volatile
set search_path from current as $$
  select coalesce(pg_stat_get_xact_tuples_returned('jobs_ready_by_tenant'::regclass), 0)
    + coalesce(pg_stat_get_xact_tuples_returned('jobs_due'::regclass), 0)
$$;
