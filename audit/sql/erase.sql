-- A person's values go, and events tell so. Without a tenant, in every tenant's part of the account.
select atlas.audit_erase(:subject, :tenant_id, :texts::text[], :actor_type, :actor_id, :meta::text::jsonb);
