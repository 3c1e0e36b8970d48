-- How many rows of the account were committed between two snapshots, counted up to so many. Looks across tenants: the frames
-- of all rooms are made from one look.
select count(*)::int as rows
from (
  select from atlas.audit_window(:epoch, :prev::text::pg_snapshot, :cur::text::pg_snapshot, '0', 0, null, null, null, :most::int)
) w;
