-- unknown -> done or refused, by a person. SQL, because a function does it.
select verdict, tenant_id, job_id, job_type, created_by, woken
from atlas.settle_effect(:id, :tenant_id, :state, :reference, :by_another, :actor_type, :actor_id, :meta::text::jsonb);
