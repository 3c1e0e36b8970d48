-- Outside of a transaction.
-- Child runs count towards the runs of a day, and have no intent.
create index concurrently workflow_runs_children on workflow_runs (tenant_id, created_at) where parent_run_id is not null;
