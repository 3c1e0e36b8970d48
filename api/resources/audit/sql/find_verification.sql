-- One verification, and whether the process that runs it no longer reports. Called by api/resources/audit/verifications.py. SQL, because whether it is silent is said by the
-- database's clock.
select key, value, updated_at, updated_at < clock_timestamp() - interval '30 seconds' as is_silent
from atlas.system_state
where key = :key;
