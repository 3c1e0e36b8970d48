-- This attempt takes over what earlier attempts of its job noted, if it still holds the job.
-- `taken` and `ordered` are the caller's transitions, from state to state. `ordered` counts where an operator ordered the mail
-- again: retried the job after the entry was written, while the job said that its outcome is unknown.
-- `age`: seconds since the first request whose outcome may be open. Names no tenant: the job's id and its lease do. SQL,
-- because the guard is a function, and what it sets depends on the row.
update only atlas.mail_ledger m
set attempt_no = :attempt,
    state      = coalesce(
      case when exists (
             select from atlas.audit_log a
             where a.entity_id = m.job_id::text
               and a.action = 'JOB_RETRIED'
               and a.created_at > m.updated_at)
           and exists (select from only atlas.jobs j where j.id = m.job_id and j.error->>'outcome' = 'unknown')
           then :ordered::jsonb ->> m.state end,
      :taken::jsonb ->> m.state,
      m.state),
    updated_at = clock_timestamp()
where m.job_id = :job_id
  and atlas.mail_held(:job_id, :worker, :attempt)
returning m.provider, m.sender, m.state, m.draft_id, m.message_id, m.slot_at is not null as has_slot,
  extract(epoch from clock_timestamp() - m.first_requested_at)::float8 as age;
