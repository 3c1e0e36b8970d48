-- How many audit rows were committed between two snapshots, counted up to so many. Reads across tenants: the frames of
-- all rooms come from one read. SQL, because a function gives the rows.
select count(*)::int as rows
from (
  select from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int)
) w;
