-- Effects, newest first: of a job, a tenant, a provider, in a state. One that is intended by an attempt that runs no more is unknown. Without a tenant it looks across
-- all (operators). SQL, because the state depends on the job.
select e.id, e.tenant_id, t.slug as tenant, e.job_id, e.job_type, e.step, e.name, e.key, s.state, e.attempt_no, e.reference, e.other_references,
  e.detail, e.created_at, e.intended_at, e.ended_at, e.settled_by, e.settled_at
from atlas.effects e
left join atlas.tenants t on t.id = e.tenant_id
left join lateral (
  select j.status = 'running' and j.attempt_count = e.attempt_no as is_running from only atlas.jobs j where j.id = e.job_id and e.state = 'intended') j on true
cross join lateral (select case when e.state = 'intended' and j.is_running is not true then 'unknown' else e.state end as state) s
where (:id::uuid is null or e.id = :id)
  and (:tenant_id::uuid is null or e.tenant_id = :tenant_id)
  and (:job_id::uuid is null or e.job_id = :job_id)
  and (:provider::text is null or split_part(e.name, '.', 1) = :provider)
  and (:state::text is null or (s.state = :state
       -- the index of what is open
       and (:state not in ('intended', 'unknown') or e.state in ('intended', 'unknown'))))
  and (:before::uuid is null or e.id < :before)
order by e.id desc
limit :limit;
