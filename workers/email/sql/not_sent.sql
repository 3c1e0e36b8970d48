-- sending -> drafted, or begun without a draft: the provider said that it did not take the mail.
-- Only the attempt that asked may say so; one that took over has asked again itself.
update atlas.mail_ledger
set state              = case when :draft_id::text is null then 'begun' else 'drafted' end,
    draft_id           = :draft_id,
    first_requested_at = null,
    updated_at         = clock_timestamp()
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state      = 'sending'
returning job_id;
