-- A page of one tenant's part of the audit log, newest first, by the index (tenant_id, id). SQL, because the cursor holds a
-- transaction id, for which Prisma has no type, the text of a JSON column is searched, and the bytes of rows are left out.
select id, epoch, xid::text as xid, created_at, tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message,
  meta::text as meta
from atlas.audit_log a
where a.tenant_id = :tenant_id
  and a.id < :before_id
  and (:actor_id::text is null or a.actor_id = :actor_id)
  and (:actions::text[] is null or a.action = any (:actions))
  and (:entity_type::text is null or a.entity_type = :entity_type)
  and (:since::timestamptz is null or a.created_at >= :since)
  and (:until::timestamptz is null or a.created_at < :until)
  and (:text::text is null or strpos(lower(concat_ws(' ', a.action, a.entity_id, a.actor_id, a.message, a.meta::text)), lower(:text)) > 0)
order by a.id desc
limit :limit;
