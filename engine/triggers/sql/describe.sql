-- What the rows of these triggers do not say: the zone that each follows, whether what it starts exists, and its last firing.
-- Called by engine/triggers/find.py. SQL, because a target is a name without a relation to follow, and may not exist yet.
select t.id, coalesce(t.timezone, n.timezone) as zone,
  case when t.workflow is not null
       then exists (select from atlas.workflows w where w.key = t.workflow and (w.tenant_id is null or w.tenant_id = t.tenant_id))
       else exists (select from atlas.job_types y where y.key = coalesce(t.job_type, t.definition_key)) end as target_exists,
  f.result::text as last_result, f.job_id as last_job_id
from atlas.job_triggers t
join atlas.tenants n on n.id = t.tenant_id
left join lateral (
  select result, job_id from atlas.trigger_fires where trigger_id = t.id order by fired_at desc, due_at desc limit 1
) f on true
where t.id = any (:ids::uuid[]);
