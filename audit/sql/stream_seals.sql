-- Seals in order, with their tenants' numbers. Across tenants: a seal covers all of them. Times as the bytes of a number:
-- a forged one need not be in any calendar. SQL, because Prisma has no type for snapshots, and cannot read times that are in no
-- calendar.
select s.n, s.epoch, timestamptz_send(s.epoch_at) as epoch_at, s.system_identifier, s.snap_prev::text as snap_prev, s.snap_cur::text as snap_cur,
  timestamptz_send(s.snap_at) as snap_at, s.closes,
  s.rest, s.to_xid::text as to_xid, s.to_id, s.max_id, s.first_index, s.count, s.size,
  timestamptz_send(s.sealed_at) as sealed_at, s.header, s.leaf_hashes,
  s.frontier, s.root, t.tenants
from atlas.audit_seal s
left join lateral (
  select array_agg((tenant_id::text, first_number, count) order by tenant_id) as tenants
  from atlas.audit_seal_tenant b where b.n = s.n
) t on true
where s.n > :after and s.n <= :last
order by s.n
limit :limit;
