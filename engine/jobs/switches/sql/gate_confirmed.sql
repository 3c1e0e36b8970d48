-- How many of the workers that could start something when the gate was closed have confirmed that they do not: of those that are
-- alive, or whose lease ended so recently that their right to start may outlast it. One that retired starts nothing.
-- handing_out: hosts, remote workers or schedulers claimed something so shortly before that it may not have been started yet.
-- No row: the gate was switched since. Looks across tenants: the gate is one for all. Called by engine/jobs/switches/gate.py.
-- SQL, because it counts by the database's clock.
select w.workers, w.confirmed,
  exists (
    select from only atlas.jobs j
    where j.lease_expires_at is not null
      and j.status = 'running'
      and j.started_at > clock_timestamp() - :lapse::float8 * interval '1 second')
  or exists (
    select from atlas.recurring_runs r
    where r.finished_at is null
      and r.started_at > clock_timestamp() - :lapse::float8 * interval '1 second') as handing_out
from atlas.system_state s
cross join lateral (
  select count(*) as workers, count(*) filter (where w.confirmed_gate >= :version) as confirmed
  from atlas.job_workers w
  where w.started_at < s.updated_at
    and w.lease_expires_at > clock_timestamp() - :lapse::float8 * interval '1 second'
    and (w.dead_at is null or w.dead_at >= w.lease_expires_at)
) w
where s.key = 'atlas_online'
  and coalesce((s.value->>'version')::bigint, 0) = :version
  and s.value->>'online' = 'false';
