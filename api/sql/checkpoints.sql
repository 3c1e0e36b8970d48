-- A page of checkpoints, newest first. They speak of the whole account, and hold nothing of anyone.
select size, key_name, epoch, signed_at, note
from atlas.audit_checkpoint
where size < :before
order by size desc
limit :limit;
