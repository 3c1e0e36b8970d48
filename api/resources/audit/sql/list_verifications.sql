-- The stored verifications of the whole log, or of a tenant, newest first by their time-ordered ids: their keys begin with :kind. Called by
-- api/resources/audit/verifications.py. SQL, because whether one is silent is said by the
-- database's clock.
select key, value, updated_at, updated_at < clock_timestamp() - interval '30 seconds' as is_silent
from atlas.system_state
where starts_with(key, :kind)
  and (:before::text is null or key < :before)
order by key desc
limit :limit;
