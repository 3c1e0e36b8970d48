-- Holds the job rows behind approvals whose time is over, in order. Looks across tenants: time passes for all of them.
-- SQL, because Prisma has no row locks.
select j.id
from only atlas.jobs j
where j.id = any (array(
    select a.run_id
    from atlas.approvals a
    where a.status = 'pending'
      and a.expires_at <= clock_timestamp()
      and (:run_ids::uuid[] is null or a.run_id = any (:run_ids))
    order by a.expires_at
    limit 1000))
order by j.id
for update;
