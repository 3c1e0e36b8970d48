-- begun, drafted -> sending, before the request that may send it. From here on only the provider knows.
-- An attempt that lost its job matches no row, and must not make the request.
update mail_ledger
set state              = 'sending',
    draft_id           = :draft_id,
    first_requested_at = coalesce(first_requested_at, clock_timestamp()),
    updated_at         = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in ('begun', 'drafted', 'sending')
  and atlas_mail_held(:job_id, :worker, :attempt)
returning job_id;
