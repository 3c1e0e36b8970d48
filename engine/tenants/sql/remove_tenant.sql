-- A tenant that is being removed and has nothing left -> gone, with its counts and what the meter added last. The caller holds it
-- and the meter. Called by engine/tenants/removal.py. SQL, because it deletes from several tables in one statement.
with counts as (
  delete from atlas.job_counts where tenant_id = :id
),
letters as (
  delete from atlas.dead_letters where tenant_id = :id
),
causes as (
  delete from atlas.dead_letter_causes where tenant_id = :id
  returning cause, count, unknown_outcomes
),
causes_of_all as (
  update atlas.dead_letter_causes a
  set count            = a.count - c.count,
      unknown_outcomes = a.unknown_outcomes - c.unknown_outcomes
  from causes c
  where a.cause = c.cause
    and a.tenant_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
),
usage as (
  delete from atlas.usage_hourly where tenant_id = :id
),
series as (
  delete from atlas.job_series where tenant_id = :id
),
pace as (
  delete from atlas.mail_pace where bucket = 'tenant:' || :id::uuid
),
verifications as (
  delete from atlas.system_state where starts_with(key, 'tenant_verification:' || :id::uuid || ':')
)
delete from atlas.tenants
where id = :id
  and removing_at is not null;
