-- The ids of one kind of row between two ids, at most so many: those that begin with what a person typed. Called by cli/ids.py.
-- SQL, because the kind decides which table is read.
(select id from atlas.jobs where :kind::text = 'job' and id between :low and :high order by id limit :most)
union
(select id from atlas.intents where :kind = 'run' and id between :low and :high order by id limit :most)
union
(select id from atlas.workflow_runs where :kind = 'run' and id between :low and :high order by id limit :most)
union
(select id from atlas.approvals where :kind = 'approval' and id between :low and :high order by id limit :most)
union
(select id from atlas.job_triggers where :kind = 'trigger' and id between :low and :high order by id limit :most)
union
(select id from atlas.webhooks where :kind = 'webhook' and id between :low and :high order by id limit :most)
union
(select id from atlas.inbound_hooks where :kind = 'hook' and id between :low and :high order by id limit :most)
union
(select id from atlas.hosts where :kind = 'host' and id between :low and :high order by id limit :most)
union
(select id from atlas.server_instances where :kind = 'server instance' and id between :low and :high order by id limit :most)
union
(select id from atlas.api_tokens where :kind = 'token' and id between :low and :high order by id limit :most)
order by id
limit :most;
