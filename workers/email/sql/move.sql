-- One state -> another, by the caller's table of transitions: the provider refused, or the draft is removed.
-- Only the attempt that holds the entry may say so. Where no request is open any more, there is none to date. SQL, because the
-- guard and the time are the database's.
update only atlas.mail_ledger
set state              = :after,
    draft_id           = :draft_id,
    first_requested_at = case when :after not in ('begun', 'drafted', 'discarding') then first_requested_at end,
    updated_at         = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in (:before, :after)
returning job_id;
