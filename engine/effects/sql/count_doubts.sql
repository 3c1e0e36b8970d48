-- How many effects are unknown, up to :most. Without a tenant it looks across all (operators). SQL, because the state depends on the job.
select count(*)::int
from (
  select from only atlas.effects e
  left join only atlas.jobs j on j.id = e.job_id
  where e.state in ('intended', 'unknown') and (:tenant_id::uuid is null or e.tenant_id = :tenant_id)
    and (e.state = 'unknown' or (j.status = 'running' and j.attempt_count = e.attempt_no) is not true)
  limit :most) d;
