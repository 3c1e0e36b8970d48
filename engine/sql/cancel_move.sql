-- A moving tenant -> as before: it may be resumed here. Called by engine/tenant_move.py. SQL, because it is guarded by the state.
update atlas.tenants
set moving_at = null, moving_to = null, updated_at = clock_timestamp()
where id = :id
  and moving_at is not null
  and removing_at is null
returning id;
