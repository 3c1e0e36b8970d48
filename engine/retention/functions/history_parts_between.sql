-- The tables of history that may hold jobs with ids from p_low to p_high, and the oldest and newest id that each may hold. Ids are ordered by time, so these are few,
-- however many tables there are. The caller runs as the owner of the tables. Called by rows_of_jobs and return_jobs.
create or replace function history_parts_between(p_low uuid, p_high uuid) returns table (name text, min_id uuid, max_id uuid) language plpgsql stable
set search_path from current as $$
#variable_conflict use_column
begin
  return query
  select c.relname::text, coalesce(b.min_id, p_low), coalesce(b.max_id, p_high)
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  left join history_bounds b on b.part = substr(c.relname, length('jobs_history_') + 1)
  where i.inhparent = 'jobs'::regclass and p_low <= coalesce(b.max_id, p_low) and p_high >= coalesce(b.min_id, p_high)
  order by c.relname;
end $$;
