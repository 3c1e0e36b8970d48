-- The key of each worker. The tokens of its attempts are made with it, and commit_attempt checks them. No program reads it back.
create table worker_keys (
  worker_id text primary key references job_workers (worker_id) on delete cascade,
  key bytea not null
);
