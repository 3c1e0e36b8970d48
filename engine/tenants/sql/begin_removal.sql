-- A tenant -> being removed: nothing can be added to it from now on. Its triggers that could fire go immediately, as many as a quota
-- allows; returns how many. The caller holds the tenant. Called by engine/tenants/removal.py. SQL, because it writes to two
-- tables in one statement, on the database's clock.
with stopped as (
  delete from atlas.job_triggers
  where tenant_id = :id
    and is_enabled
  returning id
)
update atlas.tenants
set removing_at = clock_timestamp(), updated_at = clock_timestamp()
where id = :id
  and removing_at is null
returning (select count(*) from stopped) as triggers;
