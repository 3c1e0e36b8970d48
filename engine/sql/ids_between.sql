-- The ids of one kind of row between two ids, at most so many: those that begin with what a person typed. Called by engine/id_prefixes.py.
-- `any` reads all kinds. Without a tenant, row-level security alone decides whose rows they are.
-- SQL, because the kind decides which table is read.
(select id from atlas.jobs where :kind::text in ('job', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.job_groups where :kind in ('group', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.intents where :kind in ('run', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.workflow_runs where :kind in ('run', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.approvals where :kind in ('approval', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.job_triggers where :kind in ('trigger', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.webhooks where :kind in ('webhook', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.inbound_hooks where :kind in ('hook', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.hosts where :kind in ('host', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.server_instances where :kind in ('server instance', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
union
(select id from atlas.api_tokens where :kind in ('token', 'any') and id between :low and :high and (:tenant_id::uuid is null or tenant_id = :tenant_id) order by id limit :most)
order by id
limit :most;
