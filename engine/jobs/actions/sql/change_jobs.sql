-- What an operator orders for jobs. Without a tenant it looks across all (operators). SQL, because a function does it.
select id, verdict from atlas.change_jobs(:action, :ids, :tenant_id, :actor_type, :actor_id, :meta);
