-- The newest jobs with their last event that says what became of them, and whether a handler's own event came later.
-- An attempt that the database forgot says nothing about the job. Jobs older than the rows that were removed by order have nothing left to be compared with.
-- SQL, because it compares aggregates of two tables.
select j.id, j.tenant_id, j.status::text as status, j.dead_lettered_at is not null as dead_lettered, e.created, e.last, e.own
from (
  select id, tenant_id, status, dead_lettered_at
  from atlas.jobs
  where created_at > coalesce((
    select s.sealed_at from atlas.audit_pruned p join atlas.audit_seal s on s.n = p.through_seal order by p.through_seal desc limit 1), '-infinity')
  order by id desc
  limit :limit
) j
cross join lateral (
  select
    bool_or(a.action in ('JOB_CREATED', 'JOB_IMPORTED')) as created,
    (array_agg(n.name order by a.id desc) filter (where n.name = any (:known::text[])))[1] as last,
    max(a.id) filter (where n.name <> all (:known) and n.name <> 'JOB_CANCEL_REQUESTED')
      > max(a.id) filter (where n.name = any (:known)) as own
  from atlas.audit_log a
  cross join lateral (select case a.action when 'JOB_IMPORTED' then a.action || ' ' || (a.meta->>'status') else a.action end as name) n
  where a.entity_id = j.id::text
    and a.entity_type = 'job'
    and not a.meta ? 'undone_attempt'
) e
where not coalesce(e.created, false)
   or e.last is null
   or not case j.status::text
        when 'succeeded' then e.last = any (:succeeded::text[]) or coalesce(e.own, false)
        when 'failed' then e.last = any (:failed::text[])
        when 'canceled' then e.last = any (:canceled::text[])
        else e.last = any (:open::text[]) end
limit 100;
