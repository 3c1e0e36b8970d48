-- Which of these hosts could be given a job now: one index probe each, and the first jobs that are due and not marked
-- ready yet. A host that runs a job must finish it first; one that lost its connection gets its job back.
-- Looks across tenants: hosts of all of them wait in one process. Called by api/host_polling.py. SQL, because it is a batch with
-- conditions on the database's clock.
with due as (
  select host_id from atlas.jobs
  where status = 'queued' and next_retry_at <= statement_timestamp()
  order by next_retry_at limit 1000
)
select h.id
from atlas.hosts h
where h.id = any (:hosts::uuid[])
  and h.is_active
  and exists (select from atlas.system_state where key = 'atlas_online' and value->>'online' = 'true')
  and not exists (
    select from atlas.jobs r
    where r.status = 'running' and r.claimed_by = 'host:' || h.id and r.lease_expires_at >= clock_timestamp())
  and (exists (select from atlas.jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id = h.id)
    or h.id in (select host_id from due));
