-- Attempts that a worker began and the database does not have: a failover to a standby that lagged behind undid their claims.
-- queued -> queued, for a little later and as another attempt, with the lost one recorded. One that another worker took
-- meanwhile, or has ended, is recorded and left as it is. Looks across tenants: a worker serves them all.
-- Called by engine/jobs/lease.py. SQL, because it locks and writes to three tables in one statement.
with undone as (
  -- Behind the attempt, or at it under another's name: our claim is not there. A job that went back to the queue or beyond has a row
  -- of this attempt, under the name that ran it; only a run that was suspended has none.
  select j.id, j.tenant_id, u.attempt
  from (select * from unnest(:ids::uuid[], :attempts::int[]) a(id, attempt) order by a.id) u
  cross join lateral (
    select j.id, j.tenant_id
    from atlas.jobs j
    where j.id = u.id
      and case
        when j.attempt_count < u.attempt then true
        when j.attempt_count = u.attempt and j.claimed_by is not null then j.claimed_by <> :worker
        else j.job_type <> 'ENGINE_RUN' and not exists (
          select from only atlas.job_attempts a where a.job_id = u.id and a.attempt_no = u.attempt and a.worker_id = :worker) end
    for no key update) j
),
moved as (
  update atlas.jobs j
  set attempt_count = (select d.attempt from undone d where d.id = j.id),
      next_retry_at = greatest(j.next_retry_at, clock_timestamp() + (1 + 2 * random()) * interval '1 second'),
      updated_at    = clock_timestamp()
  where j.id = any (array(select d.id from undone d))
    and case when j.status = 'queued' then j.attempt_count < (select d.attempt from undone d where d.id = j.id) else false end
  returning j.id, j.attempt_count as attempt
),
-- When it began is lost with the claim.
att as (
  insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, finished_at, error_text)
  select m.id, m.attempt, :worker, 'lost', clock_timestamp(), clock_timestamp(), 'A failover of the database undid its claim.'
  from moved m
),
-- An attempt that another ran, or will run, under this number ends once, and is metered by that end; its name in the event differs,
-- so that the event is no end of the job either.
events as (
  select d.tenant_id, d.id::text as entity_id, jsonb_build_object(
    case when exists (select from moved m where m.id = d.id) then 'attempt' else 'undone_attempt' end, d.attempt,
    'worker', :worker::text) as meta
  from undone d
),
aud as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select e.tenant_id, 'system', :worker, 'warn', 'LEASE_EXPIRED', 'job', e.entity_id, 'A failover of the database undid its claim.',
    e.meta, atlas.audit_body(e.tenant_id, 'system', :worker, 'warn', 'LEASE_EXPIRED', 'job', e.entity_id,
      'A failover of the database undid its claim.', e.meta)
  from events e
)
select id from undone;
