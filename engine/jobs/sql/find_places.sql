-- Where the ready jobs of these types begin, by type, tenant and priority. Looks across tenants: a worker serves them all. SQL, because a
-- function does it.
select job_type, tenant_id, priority, since, careful from atlas.find_places(:types);
