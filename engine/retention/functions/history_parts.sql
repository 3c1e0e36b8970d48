-- The tables that hold finished jobs apart from those that workers and people act on: children of `jobs`, so that `from jobs` reads them too and
-- `from only jobs` does not. Each holds the jobs of tenants that keep theirs for keep_days (null: for ever) and that finished on one day, or in one
-- month for those that are kept for ever, by UTC. Called by return_from_history, drop_history_part and engine/retention/history.py.
create or replace function history_parts() returns table (name text, keep_days int, day date) language sql stable
set search_path from current as $$
  select c.relname::text, case when m.found[1] <> 'kept' then m.found[1]::int end, to_date(m.found[2], 'YYYYMMDD')
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  cross join lateral (select regexp_match(c.relname::text, '^jobs_history_(kept|[0-9]{1,6})_([0-9]{8})$') as found) m
  where i.inhparent = 'jobs'::regclass and m.found is not null
$$;
