-- What a walk through the account has before it: its end, its epochs, what was removed by order, the cluster, the time.
select
  (select max(n) from audit_seal) as last,
  coalesce((select size from audit_seal order by n desc limit 1), 0) as size,
  coalesce((select max(through_seal) from audit_pruned), 0) as pruned_through,
  e.epoch,
  e.system_identifier = atlas_system_identifier() as same_cluster,
  pg_current_snapshot()::text as snapshot,
  clock_timestamp() as now
from audit_epoch e
order by e.epoch desc
limit 1;
