-- Whether a tenant, or all of them, has more active or ended jobs than are counted each time, by the counts that are kept. SQL,
-- because it compares sums in the database.
select coalesce(sum(jobs - succeeded - failed - canceled), 0) > :most::int or coalesce(sum(succeeded + failed + canceled), 0) > :most
from atlas.job_counts
where :tenant_id::uuid is null or tenant_id = :tenant_id;
