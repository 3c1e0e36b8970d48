-- Seconds since the oldest committed row that no seal covers was written; 0 where every row is sealed. SQL, because a function
-- gives the rows, and the database's clock their age.
select coalesce(extract(epoch from clock_timestamp() - least(oldest.created_at, restored.created_at)), 0)::float8
from (select max(epoch) as epoch from atlas.audit_epoch) newest
left join atlas.audit_epoch e on e.epoch = newest.epoch
left join lateral (
  select n, snap_prev, snap_cur, closes, to_xid, to_id, max_id from atlas.audit_seal where epoch = e.epoch order by n desc limit 1
) s on true
left join lateral (
  select w.created_at
  from atlas.audit_window(
    e.epoch,
    case when s.n is null then '1:1:'::pg_snapshot when s.closes then s.snap_cur else s.snap_prev end,
    pg_current_snapshot(),
    case when s.closes or s.n is null then '0'::xid8 else s.to_xid end,
    case when s.closes or s.n is null then 0 else s.to_id end,
    null, null, null, 1) w
) oldest on true
-- What was written since a restore: no window shows it until an epoch has begun.
left join lateral (
  select a.created_at
  from atlas.audit_log a
  where a.epoch = e.epoch and a.id > coalesce(s.max_id, 0)
    and (e.system_identifier <> atlas.system_identifier()
         or pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(s.snap_cur))
  order by a.id
  limit 1
) restored on true;
