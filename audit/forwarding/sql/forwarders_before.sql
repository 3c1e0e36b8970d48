-- Forwarders that have not sent all rows of the seals up to one: the name of each, its place, and the rows of these seals that it has yet to send.
-- Each seal adds a leaf for its header, so rows are leaves less seals. Called by audit/forwarding/places.py. SQL, because rows are counted by leaves.
select s.key, (s.value->>'seal')::bigint as seal,
  (through.size - through.n) - coalesce(here.size - here.n, 0) - (s.value->>'rows')::bigint as rows
from atlas.system_state s
join atlas.audit_seal through on through.n = :through
left join atlas.audit_seal here on here.n = (s.value->>'seal')::bigint
where s.key like replace(:prefix, '_', '\_') || '%'
  and (s.value->>'seal')::bigint < through.n
  and (through.size - through.n) - coalesce(here.size - here.n, 0) > (s.value->>'rows')::bigint
order by s.key;
