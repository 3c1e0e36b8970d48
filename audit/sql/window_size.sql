-- How many audit rows were committed between two snapshots, up to a limit, across tenants: whether they are read at all.
-- Called by audit/find.py and api/live/changes.py. SQL, because a function gives the rows.
select count(*)::int as rows
from (
  select from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int)
) w;
