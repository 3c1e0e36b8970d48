-- Outside of a transaction.
-- The dead letters of a cause, newest first: what a bulk action on a cause would change.
create index concurrently dead_letters_cause on dead_letters (cause, job_id);
