-- Among the newest rows of the audit log: entities that were created and are missing without an event that removed them, by kind,
-- tenant and day. Jobs are removed by JOB_DELETED, which names one, and by JOBS_PRUNED, which gives a count between a first and a
-- last; policies by POLICY_REMOVED; Atlas never removes the others. Across tenants: the doctor checks the whole installation.
with newest as (
  select a.action, a.entity_id, a.tenant_id, a.created_at
  from atlas.audit_log a
  order by a.epoch desc, a.xid desc, a.id desc
  limit :limit
),
made as (
  select n.*, case when n.entity_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then n.entity_id::uuid end as id
  from newest n
  where n.action in ('JOB_CREATED', 'TENANT_ADDED', 'TOKEN_ADDED', 'HOST_ADDED', 'TRIGGER_ADDED', 'DEFINITION_ADDED', 'POLICY_ADDED')
),
gone as (
  select m.*
  from made m
  where not case m.action
      when 'JOB_CREATED' then exists (select from atlas.jobs x where x.id = m.id)
      when 'TENANT_ADDED' then exists (select from atlas.tenants x where x.id = m.id)
      when 'TOKEN_ADDED' then exists (select from atlas.api_tokens x where x.id = m.id)
      when 'HOST_ADDED' then exists (select from atlas.hosts x where x.id = m.id)
      when 'TRIGGER_ADDED' then exists (select from atlas.job_triggers x where x.id = m.id)
      when 'DEFINITION_ADDED' then exists (select from atlas.job_definitions x where x.id = m.id)
      else exists (select from atlas.policy_rules x where x.id = m.id) end
    and not exists (
      select from atlas.audit_log e
      where e.entity_id = m.entity_id
        and ((m.action = 'JOB_CREATED' and e.action = 'JOB_DELETED') or (m.action = 'POLICY_ADDED' and e.action = 'POLICY_REMOVED')))
),
-- the orders of retention that may have removed such jobs
pruned as (
  select a.tenant_id, (a.meta->>'first')::uuid as first, (a.meta->>'last')::uuid as last, (a.meta->>'jobs')::bigint as jobs
  from (select tenant_id, (array_agg(id order by id))[1] as oldest from gone where action = 'JOB_CREATED' group by tenant_id) t
  join atlas.audit_log a on a.entity_id = t.tenant_id::text and a.action = 'JOBS_PRUNED'
  where (a.meta->>'last')::uuid >= t.oldest
),
-- how many jobs lie within such orders, and how many those orders removed
within as (
  select g.tenant_id, count(*) as gone,
    (select sum(p.jobs) from pruned p
     where p.tenant_id = g.tenant_id and exists (
       select from gone o where o.action = 'JOB_CREATED' and o.tenant_id = p.tenant_id and o.id between p.first and p.last)) as removed
  from gone g
  where g.action = 'JOB_CREATED'
    and exists (select from pruned p where p.tenant_id = g.tenant_id and g.id between p.first and p.last)
  group by g.tenant_id
)
(select g.action, g.tenant_id, (g.created_at at time zone 'UTC')::date as day, count(*) as gone, null::bigint as removed
 from gone g
 where g.action <> 'JOB_CREATED'
    or not exists (select from pruned p where p.tenant_id = g.tenant_id and g.id between p.first and p.last)
 group by 1, 2, 3
 order by 3 desc, 2, 1
 limit 100)
union all
(select 'JOBS_PRUNED', w.tenant_id, null, w.gone, w.removed
 from within w
 where w.gone > w.removed
 limit 100);
