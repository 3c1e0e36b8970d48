-- queued -> canceled; running -> asked to stop, its worker closes it. Without a tenant it looks across all (operators). SQL,
-- because a function does it.
select id, verdict from atlas.cancel_jobs(:ids, :tenant_id, :actor_type, :actor_id, :meta);
