-- How many approvals of a tenant, or of all, can be decided now, counted up to a bound. Without a tenant it looks across all
-- (operators). SQL, because the count is bounded, on the database's clock.
select count(*)::int
from (
  select
  from atlas.approvals
  where status = 'pending'
    and expires_at > clock_timestamp()
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  limit :most::int
) pending;
