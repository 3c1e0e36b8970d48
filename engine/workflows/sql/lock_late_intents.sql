-- Holds the intents behind reviews whose time is over, in order. Looks across tenants: time passes for all of them.
-- SQL, because Prisma has no row locks.
select i.id
from atlas.intents i
where i.id = any (array(
    select a.run_id
    from atlas.approvals a
    where a.status = 'pending'
      and a.kind = 'intent'
      and a.expires_at <= clock_timestamp()
      and (:run_ids::uuid[] is null or a.run_id = any (:run_ids))
    order by a.expires_at
    limit 1000))
order by i.id
for update;
