-- How many of the workers that lived when this was paused have confirmed that they start nothing that they had claimed before: of
-- those that are alive, or whose lease ended so recently that their right to start may outlast it. One that retired starts nothing.
-- handing_out: a host or a remote worker claimed something so shortly before that it may not have been started yet.
-- No row: it was resumed or paused again. Looks across tenants: a worker serves all. Called by engine/jobs/switches/pauses.py. SQL, because it counts by the
-- database's clock.
select w.workers, w.confirmed,
  exists (
    select from only atlas.jobs j
    where j.lease_expires_at is not null
      and j.status = 'running'
      and j.started_at > clock_timestamp() - :lapse::float8 * interval '1 second'
      and j.started_at < p.written_at) as handing_out
from atlas.pauses p
cross join lateral (
  select count(*) as workers, count(*) filter (where w.confirmed_pause >= p.version) as confirmed
  from atlas.job_workers w
  where w.started_at < p.written_at
    and w.lease_expires_at > clock_timestamp() - :lapse::float8 * interval '1 second'
    and (w.dead_at is null or w.dead_at >= w.lease_expires_at)
) w
where p.id = :id
  and p.version = :version;
