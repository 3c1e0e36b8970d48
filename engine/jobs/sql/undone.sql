-- Attempts that a worker began and the database does not have: a crash undid their claims. queued -> queued, for a little
-- later and as another attempt, with the lost one recorded. One that another worker took meanwhile under the same number is
-- recorded, and left to it. Looks across tenants: a worker serves them all.
with undone as (
  -- Behind the attempt, or at it under another's name: our claim is not there. A job that we ended, or that was reaped, is at it
  -- under our name or under none.
  select j.id, j.tenant_id, j.status, u.attempt
  from (select * from unnest(:ids::uuid[], :attempts::int[]) a(id, attempt) order by a.id) u
  cross join lateral (
    select j.id, j.tenant_id, j.status
    from atlas.jobs j
    where j.id = u.id
      and (j.attempt_count < u.attempt or (j.attempt_count = u.attempt and j.claimed_by <> :worker))
    for no key update) j
),
moved as (
  update atlas.jobs j
  set attempt_count = (select d.attempt from undone d where d.id = j.id),
      next_retry_at = greatest(j.next_retry_at, clock_timestamp() + (1 + 2 * random()) * interval '1 second'),
      updated_at    = clock_timestamp()
  where j.id = any (array(select d.id from undone d))
    and j.status = 'queued'
    and j.attempt_count < (select d.attempt from undone d where d.id = j.id)
  returning j.id, j.attempt_count as attempt
),
-- When it began is lost with the claim.
att as (
  insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, finished_at, error_text)
  select m.id, m.attempt, :worker, 'lost', clock_timestamp(), clock_timestamp(), 'A crash of the database undid its claim.'
  from moved m
),
-- An attempt that another runs, or will run, under this number ends once, and is metered by that end.
events as (
  select d.tenant_id, d.id::text as entity_id, jsonb_build_object(
    case when exists (select from moved m where m.id = d.id) then 'attempt' else 'undone_attempt' end, d.attempt,
    'worker', :worker::text) as meta
  from undone d
  where d.status in ('queued', 'running')
),
aud as (
  insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  select e.tenant_id, 'system', :worker, 'warn', 'LEASE_EXPIRED', 'job', e.entity_id, 'A crash of the database undid its claim.',
    e.meta, atlas.audit_body(e.tenant_id, 'system', :worker, 'warn', 'LEASE_EXPIRED', 'job', e.entity_id,
      'A crash of the database undid its claim.', e.meta)
  from events e
)
select id from undone;
