-- Any state -> sent. No fence: the mail is out, and the attempt that holds the job now must know. SQL, because the time is the
-- database's.
update only atlas.mail_ledger
set state      = 'sent',
    message_id = :message_id,
    updated_at = clock_timestamp()
where job_id   = :job_id
  and provider = :provider
  and state    <> 'sent'
returning job_id;
