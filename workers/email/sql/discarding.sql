-- A draft is about to be removed. One that is gone after this was removed, not sent.
update atlas.mail_ledger
set discarded_at = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in ('drafted', 'sending')
returning job_id;
