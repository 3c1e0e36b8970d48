-- A page of checkpoints, newest first. They cover the whole audit log, and hold no tenant's data.
select size, key_name, epoch, signed_at, note
from atlas.audit_checkpoint
where size < :before
order by size desc
limit :limit;
