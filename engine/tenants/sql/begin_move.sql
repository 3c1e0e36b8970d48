-- A tenant -> moving: from the commit on nothing of it changes here. No row: it is being removed, is moving already, or is not paused
-- without an end. The caller holds the gate's lock, under which pauses end. Called by engine/tenants/move.py. SQL, because its guard is
-- on another table, and the time on the database's clock.
update atlas.tenants t
set moving_at = clock_timestamp(), moving_to = :moving_to, updated_at = clock_timestamp()
where t.id = :id
  and t.removing_at is null
  and t.moving_at is null
  and exists (select from atlas.pauses p where p.kind = 'tenant' and p.tenant_id = t.id and p.until is null)
returning t.id;
