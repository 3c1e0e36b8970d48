-- The record of a bulk action whose next step is due. No row: it is not due, or has ended. Not locked: step_bulk_action takes the step
-- if the record is still so. Names no tenant: the record has the one whose jobs are changed. Called by engine/jobs/bulk_actions.py.
-- SQL, because what is due is said by the database's clock.
select id, tenant_id, action, selection, rate_per_second, position, list_cursor, created_at
from atlas.bulk_actions
where id = :id
  and status = 'running'
  and next_step_at <= clock_timestamp()
  and (tenant_id is null or tenant_id <> all (atlas.moving_tenants()));
