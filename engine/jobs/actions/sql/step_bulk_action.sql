-- A step of a bulk action: changes its jobs and moves its record on. Called by engine/jobs/actions/bulk_actions.py. SQL, because a function does
-- it.
select atlas.step_bulk_action(:id, :position, :cursor, :ids, :next_cursor, :is_last, :statuses, :refused);
