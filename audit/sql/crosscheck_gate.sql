-- The switch beside the last event that turned it.
select coalesce((s.value->>'online')::boolean, false) as online, e.action
from (select value from system_state where key = 'atlas_online') s
left join lateral (
  select action from audit_log a
  where a.entity_id = 'atlas_online' and a.action in ('ATLAS_ONLINE', 'ATLAS_OFFLINE')
  order by a.id desc limit 1
) e on true;
