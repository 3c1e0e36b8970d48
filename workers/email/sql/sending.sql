-- begun, drafted -> sending, before the request that may send it. From here on only the provider knows.
-- An attempt that lost its job matches no row, and must not make the request. A request that an operator ordered counts
-- as the first: what may have become of those before it, the operator has taken upon them.
update atlas.mail_ledger
set state              = 'sending',
    sender             = :sender,
    draft_id           = :draft_id,
    discarded_at       = null,
    first_requested_at = case when ordered_at > updated_at then clock_timestamp()
                              else coalesce(first_requested_at, clock_timestamp()) end,
    updated_at         = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in ('begun', 'drafted', 'sending')
  and atlas.mail_held(:job_id, :worker, :attempt)
returning job_id;
