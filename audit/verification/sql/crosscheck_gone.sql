-- Among the newest rows of the audit log: jobs that were created and are missing without an event that removed them, by tenant and
-- day. They are removed by JOB_DELETED, which names one, and by JOBS_PRUNED, which gives a count between a first and a last.
-- Across tenants: the doctor checks the whole installation. SQL, because it compares aggregates of two tables.
with newest as (
  select a.action, a.entity_id, a.tenant_id, a.created_at
  from atlas.audit_log a
  order by a.epoch desc, a.xid desc, a.id desc
  limit :limit
),
gone as (
  select n.tenant_id, n.created_at, m.id
  from newest n
  cross join lateral (
    select case when n.entity_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then n.entity_id::uuid end as id) m
  where n.action = 'JOB_CREATED'
    and not exists (select from atlas.jobs x where x.id = m.id)
    and not exists (select from atlas.audit_log e where e.entity_id = n.entity_id and e.action = 'JOB_DELETED')
),
-- the orders of retention that may have removed such jobs
pruned as (
  select a.tenant_id, (a.meta->>'first')::uuid as first, (a.meta->>'last')::uuid as last, (a.meta->>'jobs')::bigint as jobs
  from (select tenant_id, (array_agg(id order by id))[1] as oldest from gone group by tenant_id) t
  join atlas.audit_log a on a.entity_id = t.tenant_id::text and a.action = 'JOBS_PRUNED'
  where (a.meta->>'last')::uuid >= t.oldest
),
-- how many jobs lie within such orders, and how many those orders removed
within as (
  select g.tenant_id, count(*) as gone,
    (select sum(p.jobs) from pruned p
     where p.tenant_id = g.tenant_id and exists (
       select from gone o where o.tenant_id = p.tenant_id and o.id between p.first and p.last)) as removed
  from gone g
  where exists (select from pruned p where p.tenant_id = g.tenant_id and g.id between p.first and p.last)
  group by g.tenant_id
)
(select g.tenant_id, (g.created_at at time zone 'UTC')::date as day, count(*) as gone, null::bigint as removed
 from gone g
 where not exists (select from pruned p where p.tenant_id = g.tenant_id and g.id between p.first and p.last)
 group by 1, 2
 order by 2 desc, 1
 limit 100)
union all
(select w.tenant_id, null, w.gone, w.removed
 from within w
 where w.gone > w.removed
 limit 100);
