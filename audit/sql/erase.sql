-- Deletes a person's values and records it by events. Without a tenant, in every tenant's part of the audit log. SQL, because a
-- function does it.
select atlas.audit_erase(:subject, :tenant_id, :texts::text[], :actor_type, :actor_id, :meta::text::jsonb);
