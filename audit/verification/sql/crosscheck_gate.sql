-- The gate and the engine's switch beside the last event that switched each, where the two disagree. Without an event Atlas is
-- offline and the engine is on. One that was last switched before the rows that were removed by order were sealed has nothing
-- left to be compared with. SQL, because it compares two tables row by row.
select s.name, s.is_on, e.action
from atlas.system_state g
cross join lateral (values
  ('gate', coalesce((g.value->>'online')::boolean, false), g.updated_at, 'atlas_online', 'ATLAS_ONLINE', 'ATLAS_OFFLINE', false),
  ('engine', g.value->>'engine_enabled' is distinct from 'false', coalesce((g.value->>'engine_since')::timestamptz, 'infinity'),
    'engine_enabled', 'ENGINE_ENABLED', 'ENGINE_DISABLED', true)
) s (name, is_on, switched_at, entity_id, on_action, off_action, is_on_at_first)
left join lateral (
  select action from atlas.audit_log a
  where a.entity_id = s.entity_id and a.action in (s.on_action, s.off_action)
  order by a.id desc limit 1
) e on true
where g.key = 'atlas_online'
  and s.is_on <> coalesce(e.action = s.on_action, s.is_on_at_first)
  and (e.action is not null
    or s.switched_at > coalesce((
      select b.sealed_at from atlas.audit_pruned p join atlas.audit_seal b on b.n = p.through_seal
      order by p.through_seal desc limit 1), '-infinity'));
