-- The rows committed between two snapshots, in the order in which they will be sealed. By id alone, rows that commit
-- late would be passed over. After a restore and until an epoch has begun, transactions of the old cluster seem to be new:
-- what was sealed there is left out. Whether ids fell back is decided by this statement's own snapshot: a seal that was made
-- since :cur was taken is ahead of that one. SQL, because a function gives the rows between two snapshots.
select w.id, w.epoch, w.xid::text as xid, w.created_at, w.tenant_id, w.actor_type, w.actor_id, w.level, w.action, w.entity_type,
  w.entity_id, w.message, w.meta::text as meta
from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, null) w
where (:tenant_id::uuid is null or w.tenant_id = :tenant_id)
  and (:actor_id::text is null or w.actor_id = :actor_id)
  and (:actor_type::text is null or w.actor_type::text = :actor_type)
  and (:actions::text[] is null or w.action = any (:actions))
  and (:levels::text[] is null or w.level::text = any (:levels))
  and (:entity_type::text is null or w.entity_type = :entity_type)
  and (:entity_id::text is null or w.entity_id = :entity_id)
  and (:text::text is null or strpos(lower(w.action), lower(:text)) > 0 or strpos(lower(w.entity_id), lower(:text)) > 0
    or strpos(lower(w.actor_id), lower(:text)) > 0 or strpos(lower(w.message), lower(:text)) > 0
    or strpos(lower(w.meta::text), lower(:text)) > 0)
  and w.id > coalesce((
    select case
        when e.system_identifier <> atlas.system_identifier()
          or pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(s.snap_cur) then s.max_id end
    from atlas.audit_epoch e
    cross join lateral (
      select b.max_id, b.snap_cur from atlas.audit_seal b where b.epoch = e.epoch and not b.rest order by b.n desc limit 1) s
    where e.epoch = :epoch), -9223372036854775808)
order by w.xid, w.id;
