-- A page of seals, newest first; for callers that see the whole installation. SQL, because it leaves out the hashes of the
-- leaves, which are most of a seal. The last leaf of a seal is its header, the others are its rows.
select n, epoch, first_index, count, size, sealed_at, encode(root, 'hex') as root, count - 1 as rows
from atlas.audit_seal
where n < :before
order by n desc
limit :limit;
