-- The last firing of each (trigger, payload) within the trigger's window; what it started may have ended long ago.
-- SQL, because it is a batch.
select u.trigger_id, u.payload_hash, f.job_id
from unnest(:triggers::uuid[], :hashes::bytea[], :windows::int[]) u(trigger_id, payload_hash, seconds)
cross join lateral (
  select job_id
  from atlas.trigger_fires
  where trigger_id = u.trigger_id
    and payload_hash = u.payload_hash
    and result = 'fired'
    and fired_at > :now::timestamptz - u.seconds * interval '1 second'
  order by fired_at desc
  limit 1
) f;
