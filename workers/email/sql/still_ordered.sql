-- sending -> sending: the request that an operator ordered was refused. What was open before it stays open, and ordered.
update atlas.mail_ledger
set ordered_at = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state      = 'sending'
returning job_id;
