-- The oldest group that is over and not ended, held until the end of the transaction; one that another process holds is passed over.
-- Names no tenant: Atlas's own programs end the groups of all. A tenant that is being removed gets no more jobs. SQL, because both statuses are looked at in one snapshot, and locked rows are skipped.
select g.id, g.tenant_id, g.total, g.then_job, g.actor_type::text, g.created_by,
  atlas.group_counts(g.id) as counts
from atlas.job_groups g
where g.ended_at is null
  and g.id <> all (:failed::uuid[])
  -- In the order of the index of groups, in which those that are queued or running come first. None of these is in history.
  and coalesce((select j.status from only atlas.jobs j where j.group_id = g.id order by j.status limit 1) > 'running', true)
  and exists (select from atlas.tenants t where t.id = g.tenant_id and t.removing_at is null and t.moving_at is null)
order by g.id
limit 1
for update of g skip locked;
