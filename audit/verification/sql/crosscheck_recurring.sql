-- Runs of recurring functions that differ from RECURRING_FAILED, which those that failed, timed out or were lost have: another outcome than
-- their event, no event, or gone though no order of retention reaches them, nor the removal of their tenant. Runs of a tenant that
-- was imported afterwards have their events where it came from. Among the newest rows of the log, and the newest runs.
-- Across tenants: the whole installation is compared. SQL, because it compares tables that no relation connects.
with failed as (
  select a.meta->>'run_id' as run_id, a.meta->>'outcome' as outcome, a.tenant_id, a.created_at
  from (select * from atlas.audit_log order by epoch desc, xid desc, id desc limit :limit) a
  where a.action = 'RECURRING_FAILED'
),
-- the rows of the log that this reads reach back to here
reach as (
  select min(a.created_at) as since from (select created_at from atlas.audit_log order by epoch desc, xid desc, id desc limit :limit) a
)
(select coalesce(r.id::text, f.run_id) as id, case when r.id is null then 'gone' else 'outcome' end as what
 from failed f
 left join atlas.recurring_runs r on r.id::text = f.run_id
 where r.outcome::text is distinct from f.outcome
   and not (r.id is null and (atlas.was_removed(f.tenant_id, f.created_at) or exists (
     select from atlas.audit_log p
     where p.entity_id = f.tenant_id::text and p.action = 'RECURRING_PRUNED' and (p.meta->>'before')::timestamptz > f.created_at)))
 limit 100)
union all
(select r.id::text, 'unknown'
 from atlas.recurring_runs r
 cross join reach
 where r.outcome in ('failed', 'timeout', 'lost')
   and r.finished_at > reach.since
   and not exists (select from failed f where f.run_id = r.id::text)
   and not exists (
     select from atlas.audit_log i where i.entity_id = r.tenant_id::text and i.action = 'TENANT_IMPORTED' and i.created_at > r.finished_at)
 limit 100);
