-- Which of these hosts could be given a job, and in how many seconds: one index probe each, and the first jobs that are due within
-- :ahead seconds and not marked ready yet. A host that runs a job must finish it first; one that lost its connection gets its job back.
-- Where more jobs are due by then than are read, a row without a host says when to look again.
-- Looks across tenants: hosts of all of them wait in one process. Called by api/host_polling.py. SQL, because it is a batch with
-- conditions on the database's clock.
with due as (
  select host_id, extract(epoch from next_retry_at - statement_timestamp())::float8 as seconds from only atlas.jobs
  where status = 'queued' and next_retry_at <= statement_timestamp() + :ahead::float8 * interval '1 second'
  order by next_retry_at limit 1000
)
select h.id, w.seconds
from atlas.hosts h
cross join lateral (
  select case when exists (select from only atlas.jobs j where j.status = 'queued' and j.next_retry_at is null and j.host_id = h.id) then 0
              else (select min(d.seconds) from due d where d.host_id = h.id) end as seconds
) w
where h.id = any (:hosts::uuid[])
  and w.seconds is not null
  and h.is_active
  and exists (select from atlas.system_state s where atlas.is_open(s))
  and not exists (
    select from only atlas.jobs r
    where r.status = 'running' and r.claimed_by = 'host:' || h.id and r.lease_expires_at >= clock_timestamp())
union all
select null, max(d.seconds) from due d having count(*) = 1000 and max(d.seconds) > 0;
