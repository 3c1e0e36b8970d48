-- The tenants that have a recurring function of this id, or a history of one. Without a tenant it looks across all (operators).
select t.id
from atlas.tenants t
where (:tenant_id::uuid is null or t.id = :tenant_id)
  and (exists (select from atlas.recurring_jobs r where r.tenant_id = t.id and r.id = :id)
    or exists (select from atlas.recurring_runs h where h.tenant_id = t.id and h.recurring_id = :id))
order by t.slug
limit 2;
