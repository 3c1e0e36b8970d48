-- The last seal, the size of the tree, how much of it is signed, and how the last verification ended; of the whole installation.
-- Called by api/resources/audit/audit_seals.py. SQL, because a verification is a document.
select s.n as seal, coalesce(s.size, 0) as size, c.size as signed_size, v.result as verified
from (select) nothing
left join lateral (select n, size from atlas.audit_seal order by n desc limit 1) s on true
left join lateral (select size from atlas.audit_checkpoint order by size desc limit 1) c on true
left join lateral (
  select jsonb_build_object('status', value->'status', 'verified_at', updated_at, 'size', coalesce(value->'report'->'size', '0'))::text as result
  from atlas.system_state
  where key like 'verification:%' and value->>'status' in ('whole', 'damaged')
  order by key desc limit 1
) v on true;
