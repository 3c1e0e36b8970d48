-- Any state that may be asked for -> sending, unknown or resending, before the request that may send it. From here on only the
-- provider knows. An attempt that lost its job matches no row, and must not make the request. A request that an operator
-- ordered counts as the first: the operator accepts what may have become of those before it. SQL, because the guard is a
-- function, and the times are the database's.
update only atlas.mail_ledger
set state              = :after,
    sender             = :sender,
    draft_id           = :draft_id,
    first_requested_at = case when :before in ('ordered', 'draft_ordered') then clock_timestamp()
                              else coalesce(first_requested_at, clock_timestamp()) end,
    updated_at         = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in (:before, :after)
  and atlas.mail_held(:job_id, :worker, :attempt)
returning job_id;
