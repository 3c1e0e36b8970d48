-- The record of a bulk action whose next step is due, held until the end of the transaction. No row: it is not due, has ended, or
-- another process is at it. Names no tenant: the record has the one whose jobs are changed. SQL, because it skips what is locked.
select id, tenant_id, action, selection, reason, rate_per_second, position, list_cursor, actor_type::text, created_by, request, created_at
from atlas.bulk_actions
where id = :id
  and status = 'running'
  and next_step_at <= clock_timestamp()
  and (tenant_id is null or tenant_id <> all (atlas.moving_tenants()))
for update skip locked;
