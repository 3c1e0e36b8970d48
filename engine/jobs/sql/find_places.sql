-- Where the ready jobs of these types begin after this place, by type, tenant and priority, and how far that was found within this time. Looks
-- across tenants: a worker serves them all. SQL, because a function does it.
select job_type, tenant_id, priority, since, careful from atlas.find_places(:types, :after_type, :after_tenant, :after_priority, :within::interval);
