-- What a tenant's audit log held at the installations it came from, in order. Called by audit/exports/moved.py. SQL, because the caller reads it piece
-- by piece.
select part, lines
from atlas.audit_moved
where tenant_id = :tenant_id
order by part, piece;
