-- The next jobs of a tenant to be canceled: queued, or running and not asked to stop. Called by engine/tenants/removal.py. SQL,
-- because each status is read along its partial index.
(select id from only atlas.jobs where tenant_id = :tenant_id and status = 'queued' order by id limit :limit)
union all
(select id from only atlas.jobs where tenant_id = :tenant_id and status = 'running' and cancel_requested_at is null limit :limit);
