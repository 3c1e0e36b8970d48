-- How far sealing is: how many committed rows no seal covers, up to a limit, and for how many seconds the oldest waits, 0 where every
-- row is sealed; when rows were sealed last, and when the tree's head was signed. Of one tenant's rows, or of all. Reads across
-- tenants: a window has the rows of all. Called by audit/sealing/seal_status.py. SQL, because a function gives the rows, and the database's clock
-- their age.
with head as materialized (
  select e.epoch, e.system_identifier, s.*
  from atlas.audit_epoch e
  left join lateral (
    select n, snap_prev, snap_cur, closes, to_xid, to_id, max_id from atlas.audit_seal where epoch = e.epoch order by n desc limit 1
  ) s on true
  where e.epoch = (select max(epoch) from atlas.audit_epoch)
),
unsealed as (
  select w.created_at, w.tenant_id
  from head h
  cross join lateral atlas.audit_window(
    h.epoch,
    case when h.n is null then '1:1:'::pg_snapshot when h.closes then h.snap_cur else h.snap_prev end,
    pg_current_snapshot(),
    case when h.closes or h.n is null then '0'::xid8 else h.to_xid end,
    case when h.closes or h.n is null then 0 else h.to_id end,
    null, null, null, :most::int) w
  union all
  -- What was written since a restore: no window shows it until an epoch has begun.
  select r.created_at, r.tenant_id
  from head h
  cross join lateral (
    select a.created_at, a.tenant_id
    from atlas.audit_log a
    where a.epoch = h.epoch and a.id > coalesce(h.max_id, 0)
      and (h.system_identifier <> atlas.system_identifier()
           or pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(h.snap_cur))
    order by a.id
    limit :most) r
)
select count(*)::int as unsealed,
  coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8 as lag_seconds,
  case when :tenant_id::uuid is null then (select sealed_at from atlas.audit_seal order by n desc limit 1)
       else (select s.sealed_at from atlas.audit_seal_tenant t join atlas.audit_seal s on s.n = t.n
             where t.tenant_id = :tenant_id order by t.n desc limit 1) end as sealed_at,
  (select signed_at from atlas.audit_checkpoint order by size desc limit 1) as signed_at
from unsealed
where :tenant_id is null or tenant_id = :tenant_id;
