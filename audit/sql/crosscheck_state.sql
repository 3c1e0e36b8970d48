-- The entities of these kinds that are not as their last event with a digest left them: changed, made without an event, or gone. At
-- most 100 of each kind.
-- What was made before the rows that were removed by order has nothing left to be compared with, nor has the tenant that the
-- migrations make. Expired sessions are deleted without an event, approvals with their runs and intents, and the rest with
-- their tenant. Across tenants: the whole installation is compared. SQL, because a function makes the digests.
with kinds as (
  select unnest(:kinds::text[]) as kind
),
now as (
  select k.kind, d.entity_id, d.tenant_id, d.digest, d.created_at from kinds k cross join lateral atlas.state_digests(k.kind, null, null) d
),
recorded as (
  select distinct on (k.kind, a.entity_id, o.tenant_id)
    k.kind, a.entity_id, a.tenant_id, a.action, a.id, a.meta->>'state' as digest,
    coalesce(a.meta->>'run_id', a.meta->>'intent_id')::uuid as run_id
  from kinds k
  join atlas.audit_log a on a.entity_type = k.kind
  -- a workflow is one of its tenant
  cross join lateral (select case when k.kind = 'workflow' then a.tenant_id end as tenant_id) o
  where a.meta ? 'state'
  order by k.kind, a.entity_id, o.tenant_id, a.epoch desc, a.id desc
),
differing as (
  select coalesce(n.kind, r.kind) as kind, coalesce(n.entity_id, r.entity_id) as id, r.id as row, r.action,
    case when n.entity_id is null then 'gone' when r.id is null then 'unknown' else 'changed' end as what,
    row_number() over (partition by coalesce(n.kind, r.kind)) as number
  from now n
  full join recorded r
    on r.kind = n.kind and r.entity_id = n.entity_id and (n.kind <> 'workflow' or r.tenant_id is not distinct from n.tenant_id)
  where r.digest is distinct from n.digest
    -- compared again without the columns that an upgrade added since
    and not (r.digest is not null and n.entity_id is not null and atlas.had_state(n.kind, n.entity_id, n.tenant_id, r.digest))
    and not (r.id is null and (n.entity_id = '00000000-0000-7000-8000-000000000001' or n.created_at <= coalesce((
      select s.sealed_at from atlas.audit_pruned p join atlas.audit_seal s on s.n = p.through_seal order by p.through_seal desc limit 1),
      '-infinity')))
    and not (n.entity_id is null and r.kind <> 'tenant' and atlas.is_removed(r.tenant_id))
    and not (n.entity_id is null and (r.kind = 'session' or (r.kind = 'approval'
      and not exists (select from atlas.jobs j where j.id = r.run_id) and not exists (select from atlas.intents i where i.id = r.run_id))))
)
select kind, id, row, action, what from differing where number <= 100 order by kind, number;
