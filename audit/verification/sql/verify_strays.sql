-- Rows that no window can reach: without an epoch, a transaction or an id; of an epoch that does not exist; of a transaction that
-- is not over, whose rows no one else can see (after a restore, before an epoch has begun, transactions of the old cluster look
-- so); or of a transaction below 3, the first that Postgres assigns. Also seals, running numbers, notes and orders that name
-- what does not exist. And epochs that began at another time than their seals say, or without an event
-- that gives the same reason, unless that event may have been removed by order. SQL, because Prisma has no type for snapshots
-- and transaction ids.
with
-- Read here and not before: another epoch may begin during a walk.
newest as (
  select e.epoch, e.system_identifier = atlas.system_identifier()
    and pg_snapshot_xmax(pg_current_snapshot()) >= coalesce(pg_snapshot_xmax(s.snap_cur), '0') as same_cluster
  from (select epoch, system_identifier from atlas.audit_epoch order by epoch desc nulls last limit 1) e
  left join lateral (select snap_cur from atlas.audit_seal where epoch = e.epoch order by n desc limit 1) s on true
),
reached as (
  select coalesce(max(n), 0) as n from atlas.audit_seal
)
select 'row' as kind, a.id as at
from atlas.audit_log a, newest e
where a.epoch is null or a.xid is null or a.id is null
   or a.epoch < 1 or a.epoch > e.epoch or a.xid < '3'::xid8
   or (e.same_cluster and a.epoch = e.epoch and a.xid >= pg_snapshot_xmin(pg_current_snapshot())
       and not pg_visible_in_snapshot(a.xid, pg_current_snapshot())
       and a.xid is distinct from pg_current_xact_id_if_assigned())
union all
select 'seal', s.n
from atlas.audit_seal s
where s.n is null or s.n < 1
union all
select 'number', t.n
from atlas.audit_seal_tenant t
where t.n is null or t.n < 1 or t.n > (select n from reached) or t.tenant_id is null
union all
select 'note', c.size
from atlas.audit_checkpoint c
where c.size is null or c.size < 1
union all
select 'checkpoint', c.size
from atlas.audit_checkpoint c
where c.size > coalesce((select s.size from atlas.audit_seal s where s.n = (select n from reached)), 0)
union all
select 'order', p.through_seal
from atlas.audit_pruned p
where p.through_seal is null or p.through_seal < 1 or p.through_seal > (select n from reached)
union all
select 'epoch', e.epoch
from atlas.audit_epoch e
where e.epoch is null or e.epoch < 1
  or (select s.epoch_at is distinct from e.started_at from atlas.audit_seal s where s.epoch = e.epoch order by s.n limit 1)
  or (e.epoch = 1 and e.reason is distinct from '') or (e.epoch > 1
  and (not exists (select from atlas.audit_epoch b where b.epoch = e.epoch - 1)
    or (e.epoch > coalesce((select s.epoch from atlas.audit_seal s where s.n = (select max(through_seal) from atlas.audit_pruned)), 0)
      and not exists (
        select from atlas.audit_log a where a.entity_id = e.epoch::text and a.action = 'AUDIT_EPOCH' and a.message = e.reason))))
limit 100;
