-- The archives that were recorded, each by an event, and whose end is what the log has there: the same tree at the same seal. By their first seal.
-- Called by audit/exports/archives.py. SQL, because the event is compared with the seal.
select a.meta->>'sha256' as sha256, (a.meta->>'first_seal')::bigint as first_seal, s.n as last_seal, a.meta->>'verified' as verified
from atlas.audit_log a
join atlas.audit_seal s on s.n = (a.meta->>'last_seal')::bigint and s.size = (a.meta->>'size')::bigint and encode(s.root, 'hex') = a.meta->>'root'
where a.entity_id = 'archive' and a.entity_type = 'audit_log' and a.action = 'AUDIT_ARCHIVED' and a.tenant_id is null
order by 2, s.n desc;
