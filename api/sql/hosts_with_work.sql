-- Which of these hosts have a job that is due: one probe each, and what has come due and nobody made ready yet.
-- Looks across tenants: hosts of all of them wait in one process.
select h.id
from unnest(:hosts::uuid[]) h(id)
where exists (select from jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id = h.id)
union
select j.host_id
from jobs j
where j.status = 'queued'
  and j.next_retry_at <= clock_timestamp()
  and j.host_id = any (:hosts);
