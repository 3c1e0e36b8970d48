-- The entities of these kinds that are not as their last event with a digest left them: changed, made without an event, or gone. At
-- most 100 of each kind.
-- What was made before the rows that were removed by order has nothing left to be compared with. The tenant that the migrations make has no event
-- before its first change, and is compared with what they make. Nothing is compared with what was last changed before events of its kind had digests. Expired sessions are deleted without an event,
-- approvals with their runs and intents, groups and bulk actions 90 days after their end, and the rest with their tenant.
-- Across tenants: the whole installation is compared. SQL, because a function makes the digests.
with kinds as (
  select unnest(:kinds::text[]) as kind
),
now as (
  select k.kind, d.entity_id, d.tenant_id, d.digest,
    -- the type of a definition is compared with it, whenever it was made
    case when k.kind = 'job_type' and exists (select from atlas.job_definitions y where y.key = d.entity_id) then 'infinity' else d.created_at
    end as created_at
  from kinds k
  cross join lateral atlas.state_digests(k.kind, null, null) d
),
digests as (
  select e.kind, e.entity_id, e.owner, a.tenant_id, a.action, a.epoch, a.id, a.created_at, e.digest,
    coalesce(a.meta->>'run_id', a.meta->>'intent_id')::uuid as run_id
  from atlas.audit_log a
  cross join lateral (
    select a.entity_type as kind, a.entity_id, a.meta->>'state' as digest,
      -- these are named by their tenant too
      case when a.entity_type in ('workflow', 'recurring') then a.tenant_id end as owner
    where a.meta ? 'state'
    union all
    select 'pause', a.meta->>'pause', a.meta->>'pause_state', null where a.meta ? 'pause_state'
  ) e
  join kinds k on k.kind = e.kind
  where a.meta ?| array['state', 'pause_state']
),
recorded as (
  select distinct on (kind, entity_id, owner) * from digests order by kind, entity_id, owner, epoch desc, id desc
),
-- Kinds that came later: what was there before their first digest may have an event without one, or none.
later as (
  select k.kind, (select min(d.created_at) from digests d where d.kind = k.kind) as since
  from kinds k
  where k.kind in ('pause', 'recurring', 'group', 'bulk_action', 'job_type')
),
differing as (
  select coalesce(n.kind, r.kind) as kind, coalesce(n.entity_id, r.entity_id) as id, r.id as row, r.action,
    case when n.entity_id is null then 'gone' when r.id is not null then 'changed'
         when n.kind = 'job_type' and exists (select from atlas.job_definitions d where d.key = n.entity_id) then 'defined'
         else 'unknown' end as what,
    row_number() over (partition by coalesce(n.kind, r.kind)) as number
  from now n
  full join recorded r
    on r.kind = n.kind and r.entity_id = n.entity_id and (n.kind not in ('workflow', 'recurring') or r.owner is not distinct from n.tenant_id)
  where r.digest is distinct from n.digest
    -- compared again without the columns that an upgrade added since
    and not (r.digest is not null and n.entity_id is not null and atlas.had_state(n.kind, n.entity_id, n.tenant_id, r.digest))
    and not (r.id is null and (n.kind = 'tenant' and exists (
      select from atlas.tenants t
      where t.id::text = n.entity_id and t.id = '00000000-0000-7000-8000-000000000001' and (t.slug, t.name, t.timezone) = ('system', 'System', 'UTC')
        and t.limits = '{}' and t.retention = '{}' and num_nonnulls(t.removing_at, t.moving_at, t.moving_to) = 0) or n.created_at <= coalesce((
      select s.sealed_at from atlas.audit_pruned p join atlas.audit_seal s on s.n = p.through_seal order by p.through_seal desc limit 1),
      '-infinity')))
    and not (r.id is null and exists (
      select from later l where l.kind = n.kind and n.created_at < coalesce(l.since, 'infinity')))
    -- published with its definition, which is compared itself, and as it says
    and not (r.id is null and n.kind = 'job_type' and exists (
      select from atlas.job_definitions d
      join atlas.job_types t on t.key = d.key
      where d.key = n.entity_id and not t.audit_content
        and (t.description, t.input_schema, t.timeout_seconds, t.max_retries, t.retry_policy, t.concurrency, t.concurrency_key, t.rate, t.burst)
          is not distinct from
          (d.description, d.arg_schema, d.timeout_seconds, d.max_retries, d.retry_policy, d.concurrency, d.concurrency_key, d.rate, d.burst)))
    -- a program of the version before has written it
    and not (r.id is null and n.kind in ('recurring', 'group', 'bulk_action') and exists (
      select from atlas.audit_log a where a.entity_id = n.entity_id and a.entity_type = n.kind and not a.meta ? 'state'))
    and not (r.id is null and n.kind = 'pause' and exists (
      select from atlas.audit_log a where a.action = 'PAUSED' and a.meta->>'pause' = n.entity_id and not a.meta ? 'pause_state'))
    and not (n.entity_id is null and r.kind <> 'tenant' and atlas.was_removed(r.tenant_id, r.created_at))
    and not (n.entity_id is null and r.action in ('GROUP_ENDED', 'BULK_ACTION_ENDED', 'BULK_ACTION_CANCELED')
      and r.created_at < clock_timestamp() - interval '89 days')
    and not (n.entity_id is null and (r.kind = 'session' or (r.kind = 'approval'
      and not exists (select from atlas.jobs j where j.id = r.run_id) and not exists (select from atlas.intents i where i.id = r.run_id))))
)
select kind, id, row, action, what from differing where number <= 100 order by kind, number;
