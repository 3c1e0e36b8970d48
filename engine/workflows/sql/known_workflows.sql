-- The keys of all workflows a tenant could mean, and which of them a worker's code brought lately: such a worker may be away
-- for weeks, and its runs wait for it. SQL, because it compares ages, a group at a time, on the database's clock.
select w.key, bool_or(w.kind = 'code' and w.last_seen_at > clock_timestamp() - interval '30 days') as in_code
from atlas.workflows w
where w.tenant_id is null
   or w.tenant_id = :tenant_id
group by w.key;
