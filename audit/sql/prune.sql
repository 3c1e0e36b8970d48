-- Sealed rows -> gone, leaves kept; the owner's verb, with its order and its event in this statement's transaction. SQL,
-- because a function does it.
select atlas.audit_prune(:through, :actor_type, :actor_id, :meta::text::jsonb);
