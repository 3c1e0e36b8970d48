-- Audit rows committed between two snapshots, counted by action, of all tenants: so many rows after a position in that
-- window, and the position that was reached.
with page as materialized (
  select action, xid, id
  from atlas.audit_window(
    :epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, :after_xid::text::xid8, :after_id, null, null, null, :most::int)
),
-- the last row of it
reached as (
  select xid, id
  from page
  order by xid desc, id desc
  limit 1
)
select p.action, count(*)::int as count, r.xid::text as reached_xid, r.id as reached_id
from page p
cross join reached r
group by p.action, r.xid, r.id;
