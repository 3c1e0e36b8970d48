-- The switch beside the last event that turned it. One that was last turned before the rows that were removed by order were
-- sealed has nothing left to be compared with.
select coalesce((s.value->>'online')::boolean, false) as online, e.action
from (select value, updated_at from atlas.system_state where key = 'atlas_online') s
left join lateral (
  select action from atlas.audit_log a
  where a.entity_id = 'atlas_online' and a.action in ('ATLAS_ONLINE', 'ATLAS_OFFLINE')
  order by a.id desc limit 1
) e on true
where e.action is not null
   or s.updated_at > coalesce((
     select b.sealed_at from atlas.audit_pruned p join atlas.audit_seal b on b.n = p.through_seal order by p.through_seal desc limit 1), '-infinity');
