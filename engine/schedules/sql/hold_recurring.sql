-- Locks a schedule, so that a run of it that ends at the same time has ended, or ends afterwards. SQL, because Prisma has no
-- row locks.
select id from atlas.recurring_jobs
where tenant_id = :tenant_id
  and id = :id
for update;
