-- How many rows of the audit log a tenant has. Called by engine/tenants/move_export.py. SQL, because Prisma has no model of the log.
select count(*) from atlas.audit_log where tenant_id = :tenant_id;
