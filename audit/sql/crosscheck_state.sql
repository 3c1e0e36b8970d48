-- The entities of one kind that are not as their last event with a digest left them: changed, made without an event, or gone.
-- What was made before the rows that were removed by order has nothing left to be compared with, nor has the tenant that the
-- migrations make. Expired sessions are deleted without an event, approvals with their runs and intents, and the rest with
-- their tenant. Across tenants: the whole installation is compared. SQL, because a function makes the digests.
with now as (
  select d.entity_id, d.tenant_id, d.digest, d.created_at from atlas.state_digests(:kind, null, null) d
),
recorded as (
  select distinct on (a.entity_id, case when :kind = 'workflow' then a.tenant_id end)
    a.entity_id, a.tenant_id, a.action, a.id, a.meta->>'state' as digest,
    coalesce(a.meta->>'run_id', a.meta->>'intent_id')::uuid as run_id
  from atlas.audit_log a
  where a.entity_type = :kind
    and a.meta ? 'state'
  order by a.entity_id, case when :kind = 'workflow' then a.tenant_id end, a.epoch desc, a.id desc
)
select coalesce(n.entity_id, r.entity_id) as id, r.id as row, r.action,
  case when n.entity_id is null then 'gone' when r.id is null then 'unknown' else 'changed' end as what
from now n
full join recorded r
  on r.entity_id = n.entity_id and (:kind <> 'workflow' or r.tenant_id is not distinct from n.tenant_id)
where r.digest is distinct from n.digest
  -- compared again without the columns that an upgrade added since
  and not (r.digest is not null and n.entity_id is not null and atlas.had_state(:kind, n.entity_id, n.tenant_id, r.digest))
  and not (r.id is null and (n.entity_id = '00000000-0000-7000-8000-000000000001' or n.created_at <= coalesce((
    select s.sealed_at from atlas.audit_pruned p join atlas.audit_seal s on s.n = p.through_seal order by p.through_seal desc limit 1),
    '-infinity')))
  and not (n.entity_id is null and :kind <> 'tenant' and atlas.is_removed(r.tenant_id))
  and not (n.entity_id is null and (:kind = 'session' or (:kind = 'approval'
    and not exists (select from atlas.jobs j where j.id = r.run_id) and not exists (select from atlas.intents i where i.id = r.run_id))))
limit 100;
