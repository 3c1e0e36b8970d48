-- The job that each of these hosts runs, and how many are due for it, counted up to 10,000. Called by engine/hosts/hosts.py.
-- SQL, because it counts by a partial index and up to a bound.
select h.id,
  (select j.id from only atlas.jobs j where j.claimed_by = 'host:' || h.id and j.tenant_id = h.tenant_id and j.status = 'running' limit 1)
    as running_job_id,
  (select count(*) from (
    select from only atlas.jobs j
    where j.host_id = h.id and j.tenant_id = h.tenant_id and j.status = 'queued' and j.next_retry_at is null limit 10000) d)::int
    as waiting_count
from atlas.hosts h
where h.id = any (:ids::uuid[]);
