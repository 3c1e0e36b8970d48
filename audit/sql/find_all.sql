-- A page of the audit log, newest first, across tenants: for operators and auditors of the installation. The index
-- (epoch, xid, id) gives the order. A time is translated into a transaction id by the seals around it, so that old rows
-- are not read only to be left out. Of an epoch that was restored into another cluster, or has ended, all rows are read: what was
-- left of it has transaction ids that say nothing about its time. The seal is found by the index (sealed_at), also
-- where there is none: by its number, every seal would be read. SQL, because Prisma has no type for transaction ids, which are
-- in the order and in the cursor.
select id, epoch, xid::text as xid, created_at, tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message,
  meta::text as meta
from atlas.audit_log a
where (a.epoch, a.xid, a.id) < (:before_epoch, :before_xid::text::xid8, :before_id)
  and (a.epoch, a.xid) >= (
    coalesce((select s.epoch from atlas.audit_seal s where s.sealed_at < :since::timestamptz - interval '1 minute' order by s.sealed_at desc limit 1), 0),
    coalesce((
      select case
          when last.rest or e.system_identifier <> atlas.system_identifier()
            or pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(last.snap_cur) then '0'
          else pg_snapshot_xmin(s.snap_cur) end
      from atlas.audit_seal s
      join atlas.audit_epoch e on e.epoch = s.epoch
      cross join lateral (select b.rest, b.snap_cur from atlas.audit_seal b where b.epoch = s.epoch order by b.n desc limit 1) last
      where s.sealed_at < :since - interval '1 minute'
      order by s.sealed_at desc limit 1), '0'))
  and (:actor_id::text is null or a.actor_id = :actor_id)
  and (:actor_type::text is null or a.actor_type::text = :actor_type)
  and (:actions::text[] is null or a.action = any (:actions))
  and (:levels::text[] is null or a.level::text = any (:levels))
  and (:entity_type::text is null or a.entity_type = :entity_type)
  and (:since is null or a.created_at >= :since)
  and (:until::timestamptz is null or a.created_at < :until)
  and (:text::text is null or strpos(lower(a.action), lower(:text)) > 0 or strpos(lower(a.entity_id), lower(:text)) > 0
    or strpos(lower(a.actor_id), lower(:text)) > 0 or strpos(lower(a.message), lower(:text)) > 0
    or strpos(lower(a.meta::text), lower(:text)) > 0)
order by a.epoch desc, a.xid desc, a.id desc
limit :limit;
