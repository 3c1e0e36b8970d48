-- The id of the pause of a target, of one tenant or of all. Called by engine/jobs/switches/pauses.py, under the gate's lock. SQL, because pauses end by
-- the database's clock.
select id from atlas.pauses
where kind = :kind
  and target = :target
  and tenant_id is not distinct from :tenant_id::uuid
  and (until is null or until > clock_timestamp());
