-- What claims count for a limit, while reading it from the indexes takes long: a transaction holds the xmin horizon, and they have an entry for each job that
-- has run since. One row for each limit; the one of the limits of types and tenants has the id 0. Every change gives the row a new `n`, and the newest is read first, so that its
-- earlier versions are not walked over.
create table counted_jobs (
  limit_id    uuid not null,
  n           bigint generated always as identity,
  -- Those that count: running ones, and those that the limit has released.
  ids         uuid[] not null,
  -- Which types and tenants have a limit.
  terms       uuid,
  -- How long the row is used before the indexes are read again.
  until       timestamptz(6) not null,
  -- Since when held jobs were created that are left, by priority, the highest first.
  priorities  int[] not null default '{}',
  held_since  timestamptz(6)[] not null default '{}',
  -- Events with greater ids than this are still to be taken; from next_ids on, once all transactions before next_xid have ended.
  ids_from    bigint not null default 0,
  next_ids    bigint,
  next_xid    xid8,
  primary key (limit_id, n)
);

-- The place of a job that the event says is held; null: the event is of another kind. -infinity: it is not known.
alter table limit_events
  add column priority int,
  add column held_since timestamptz(6) default '-infinity';
-- The newest version of a bucket before its earlier ones.
create index job_limits_newest on job_limits (id, refilled_at desc);
