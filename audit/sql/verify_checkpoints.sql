-- The notes signed after one size of the tree and up to another. SQL, because Prisma cannot read times that are in no calendar,
-- and forged ones may be such.
select size, key_name, epoch, coalesce(note, '') as note, timestamptz_send(signed_at) as signed_at
from atlas.audit_checkpoint
where size > :after and size <= :size
order by size, key_name;
