-- Delayed jobs that have not started yet: their due time is the one that they were enqueued for.
update jobs set scheduled_for = next_retry_at
where status = 'queued' and next_retry_at < '9999-01-01 00:00:00+00' and attempt_count = 0 and scheduled_for is null;
