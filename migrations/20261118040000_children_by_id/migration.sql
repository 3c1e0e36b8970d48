-- Outside of a transaction.
-- What a run started, in the order of ids, for its list. It takes the place of jobs_children, which the next migration drops.
create index concurrently jobs_children_by_id on jobs (parent_run_id, id) where parent_run_id is not null;
