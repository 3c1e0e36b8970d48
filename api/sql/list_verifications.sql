-- The stored verifications, newest first by their time-ordered ids. SQL, because whether one is silent is said by the
-- database's clock.
select key, value, updated_at, updated_at < clock_timestamp() - interval '30 seconds' as is_silent
from atlas.system_state
where key like 'verification:%'
  and (:before::text is null or key < :before)
order by key desc
limit :limit;
