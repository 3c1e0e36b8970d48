-- The tenants that have a recurring function of this id, or a history of one. Without a tenant it looks across all (operators).
-- One lookup a tenant. The order is there for the index: the planner expects a first row soon, and would read the table for it.
-- SQL, because each tenant is looked up by two indexes.
select t.id
from atlas.tenants t
where (:tenant_id::uuid is null or t.id = :tenant_id)
  and ((select true from atlas.recurring_jobs r where r.tenant_id = t.id and r.id = :id)
    or (select true from atlas.recurring_runs h where h.tenant_id = t.id and h.recurring_id = :id order by h.started_at limit 1))
order by t.slug
limit 2;
