-- What was committed to the account between two snapshots, by action, of all tenants; at most so many rows are counted.
select action, count(*)::int as count
from atlas_audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int)
group by action;
