-- The tenant's zone stays as it is until the end of the transaction; a change of it in flight is waited for. A lock of its own,
-- since a tenant's requests may not lock the row. A statement of its own, so that the next one sees what was waited for.
select pg_advisory_xact_lock_shared(atlas.lock_class('timezone'), hashtext(:tenant_id::uuid::text));
