-- Effects of a provider whose last call began since a time, in the order of their ids, after one. Looks across tenants: a provider's account is the installation's.
-- One that is intended by an attempt that runs no more is unknown. SQL, because the state depends on the job.
select e.id, e.job_id, e.name, e.key,
  case when e.state = 'intended' and (j.status = 'running' and j.attempt_count = e.attempt_no) is not true then 'unknown' else e.state end,
  e.reference, e.intended_at, e.ended_at
from atlas.effects e
left join only atlas.jobs j on j.id = e.job_id and e.state = 'intended'
where split_part(e.name, '.', 1) = :provider
  and e.id > :after
  and e.intended_at >= :since
order by e.id
limit :limit;
