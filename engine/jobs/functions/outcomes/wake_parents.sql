-- Wakes workflow runs whose child has ended. A run and the job row that carries it have one id.
-- The rows are locked in a statement of their own: a parent that is suspending holds its row, and only the statement after the
-- wait sees it as queued. A parent that still runs looks at its children when it suspends.
-- The guard stands in a case, opaque to the planner, so that the key is the only way in.
-- Locks: job rows in ascending id.
create or replace function wake_parents(p_parents uuid[]) returns void language plpgsql volatile
set search_path from current as $$
begin
  if cardinality(p_parents) > 0 then
    perform from only jobs where id = any (p_parents) order by id for update;
    update only jobs set next_retry_at = null, due_at = clock_timestamp()
    where id = any (p_parents) and case when status = 'queued' and next_retry_at is not null then true else false end;
    perform pg_notify(current_schema() || '_jobs', '');
  end if;
end $$;
