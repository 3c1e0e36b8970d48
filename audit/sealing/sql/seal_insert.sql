-- One row for the batch and one for each of its tenants; nothing for each event. A sealer that raced another past the
-- lock breaks on the unique n, first_index or size, and its whole transaction goes. SQL, because it writes to two tables in one
-- statement.
with
sealed as (
  insert into atlas.audit_seal (n, epoch, epoch_at, system_identifier, snap_prev, snap_cur, snap_at, closes, rest,
    to_xid, to_id, max_id, first_index, count, size, sealed_at, header, leaf_hashes, frontier, root)
  values (:n, :epoch, :epoch_at, :system_identifier, :snap_prev::text::pg_snapshot, :snap_cur::text::pg_snapshot, :snap_at,
    :closes, :rest, :to_xid::text::xid8, :to_id, :max_id, :first_index, :count, :size, :sealed_at, :header,
    :leaf_hashes, :frontier, :root)
)
insert into atlas.audit_seal_tenant (tenant_id, n, first_number, count)
select t.tenant_id, :n, t.first_number, t.count
from unnest(:tenants::uuid[], :first_numbers::bigint[], :counts::int[]) t(tenant_id, first_number, count);
