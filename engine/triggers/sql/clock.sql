-- The time that decides what is due, and the zone of a tenant's schedules. No row: there is no such tenant.
-- SQL, because the time comes from a function.
select atlas.schedule_clock() as now, timezone
from atlas.tenants
where id = :tenant_id;
