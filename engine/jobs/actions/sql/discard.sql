-- dead letter -> failed. Without a tenant it looks across all (operators). SQL, because a function does it.
select id, verdict from atlas.discard_jobs(:ids, :tenant_id, :actor_type, :actor_id, :meta);
