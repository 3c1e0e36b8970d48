-- The last ordinary batch of each epoch, if it has one: where what was left of it begins. SQL, because Prisma has no type for
-- transaction ids.
select e.epoch, s.max_id, s.closes, s.to_xid::text as to_xid, s.to_id
from atlas.audit_epoch e
left join lateral (
  select max_id, closes, to_xid, to_id from atlas.audit_seal b where b.epoch = e.epoch and not b.rest order by b.n desc limit 1
) s on true
where e.epoch is not null;
