-- This attempt takes over what earlier attempts of its job noted, if it still holds the job.
-- `age`: seconds since the first request whose outcome may be open. `ordered`: an operator retried the job after that
-- entry was written, and the job said that its outcome is unknown. It stays ordered until the provider is asked again.
-- Names no tenant: the job's id and its lease do.
update atlas.mail_ledger m
set attempt_no = :attempt,
    ordered_at = greatest(m.ordered_at, (
      select max(a.created_at)
      from atlas.audit_log a
      where m.state in ('drafted', 'sending')
        and a.entity_id = m.job_id::text
        and a.action = 'JOB_RETRIED'
        and a.created_at > m.updated_at
        and exists (select from atlas.jobs j where j.id = m.job_id and j.error->>'outcome' = 'unknown')))
where m.job_id = :job_id
  and atlas.mail_held(:job_id, :worker, :attempt)
returning m.provider, m.sender, m.state, m.draft_id, m.message_id, coalesce(m.ordered_at > m.updated_at, false) as ordered,
  m.discarded_at is not null as discarded, m.slot_at is not null as reserved,
  extract(epoch from clock_timestamp() - m.first_requested_at)::float8 as age;
