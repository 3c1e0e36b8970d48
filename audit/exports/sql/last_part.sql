-- The number of the last part of a tenant's audit log that came from elsewhere; 0 without any. Called by audit/exports/moved.py. SQL, because it
-- aggregates.
select coalesce(max(part), 0) from atlas.audit_moved where tenant_id = :tenant_id;
