-- The jobs in history with these ids, see rows_of_jobs. Called by engine/jobs/lists/sql/read_jobs.sql, engine/jobs/explain/sql/explain.sql, refuse_used_ids and step_bulk_action, with ids that are not in `only jobs`.
create or replace function history_rows(p_ids uuid[]) returns setof jobs language plpgsql stable
set search_path from current as $$
begin
  if p_ids <> '{}' then
    return query select r.* from rows_of_jobs(null::jobs, p_ids) r;
  end if;
end $$;
