-- The ids of some kinds of rows between two ids, up to a limit: those that begin with what a person typed. Called by engine/id_prefixes.py.
-- Without a tenant, row-level security alone decides whose rows they are.
-- SQL, because the kinds decide which tables are read.
(select id from atlas.jobs where 'job' = any (:kinds::text[]) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.job_groups where 'group' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.intents where 'run' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.workflow_runs where 'run' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.approvals where 'approval' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.effects where 'effect' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.job_triggers where 'trigger' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.webhooks where 'webhook' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.inbound_hooks where 'hook' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.hosts where 'host' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.server_instances where 'server instance' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.api_tokens where 'token' = any (:kinds) and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
order by id
limit :most;
