-- When an engine last looked for intents, and how many wait for one. Looks across tenants: the engine serves them all.
-- SQL, because the silence is measured on the database's clock.
select (s.value->>'last_tick_at')::timestamptz as last_tick_at,
  extract(epoch from clock_timestamp() - (s.value->>'last_tick_at')::timestamptz)::float8 as silent_seconds,
  (select count(*) from (select from atlas.intents where status = 'draft' limit 10000) w)::int as waiting
from (select) one
left join atlas.system_state s on s.key = 'engine_tick';
