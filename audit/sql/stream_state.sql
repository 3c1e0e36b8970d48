-- What a walk through the audit log needs to know: its end, its epochs, what was removed by order, the cluster, the time.
-- Epoch 0: the table of epochs was emptied. Epochs are numbered without gaps, so their count shows whether one is missing;
-- the newest is the one that seals and new rows have reached. Another cluster is recognised by its identifier, or by transaction
-- ids that fell back where a provider hides that. SQL, because Prisma has no type for snapshots.
select
  (select max(n) from atlas.audit_seal) as last,
  coalesce((select size from atlas.audit_seal order by n desc limit 1), 0) as size,
  coalesce((select max(through_seal) from atlas.audit_pruned), 0) as pruned_through,
  coalesce(e.epoch, 0) as epoch,
  (select count(distinct epoch) from atlas.audit_epoch where epoch > 0) as epochs,
  coalesce(greatest((select max(epoch) from atlas.audit_seal), (
    select substring(pg_get_expr(d.adbin, d.adrelid) from '^[0-9]{1,9}$')::int
    from pg_attrdef d
    join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid = 'atlas.audit_log'::regclass and a.attname = 'epoch')), 0) as reached_epoch,
  coalesce(e.system_identifier = atlas.system_identifier()
    and pg_snapshot_xmax(pg_current_snapshot()) >= coalesce(pg_snapshot_xmax(s.snap_cur), '0'), true) as same_cluster,
  pg_current_snapshot()::text as snapshot,
  clock_timestamp() as now
from (select) this
left join lateral (select epoch, system_identifier from atlas.audit_epoch order by epoch desc nulls last limit 1) e on true
left join lateral (select snap_cur from atlas.audit_seal where epoch = e.epoch order by n desc limit 1) s on true;
