-- The next epoch begins in this cluster; the owner's verb. SQL, because a function does it.
select atlas.audit_new_epoch(:reason, :actor_type, :actor_id, :meta::text::jsonb);
