-- Forwarders of the audit log, or one, with the sealed rows that each has yet to send and the age of the oldest seal of these. Each seal adds
-- a leaf for its header, so rows are leaves less seals. Called by audit/forwarding/places.py. SQL, because of the database's clock.
select s.key, s.value::text as value, s.updated_at,
  greatest(0, coalesce(last.size - last.n, 0) - coalesce(here.size - here.n, 0) - (s.value->>'rows')::bigint) as lag_rows,
  coalesce(extract(epoch from clock_timestamp() - waiting.sealed_at), 0)::float8 as lag_seconds
from atlas.system_state s
left join lateral (select n, size from atlas.audit_seal order by n desc limit 1) last on true
left join lateral (select n, size from atlas.audit_seal where n = (s.value->>'seal')::bigint) here on true
left join lateral (
  select sealed_at from atlas.audit_seal
  where n > (s.value->>'seal')::bigint and count - 1 > case when n = (s.value->>'seal')::bigint + 1 then (s.value->>'rows')::bigint else 0 end
  order by n limit 1) waiting on true
where s.key like replace(:prefix, '_', '\_') || '%' and (:key::text is null or s.key = :key)
order by s.key;
