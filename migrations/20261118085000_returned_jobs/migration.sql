-- Outside of a transaction.
-- Ready again after a wait, in the order of when it ended: a claim that goes on from its last place finds here what came back with an older one.
-- Jobs that never waited are not in it and pay nothing.
create index concurrently jobs_returned on jobs (due_at)
  where status = 'queued' and next_retry_at is null and host_id is null and due_at is not null;
