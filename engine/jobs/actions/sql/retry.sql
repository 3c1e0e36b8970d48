-- failed, canceled -> queued, as new, by an operator's order. Without a tenant it looks across all (operators). SQL, because a
-- function does it.
select id, verdict from atlas.retry_jobs(:ids, :tenant_id, :actor_type, :actor_id, :meta);
