-- How many of these jobs are not in the set of a preview. Names no tenant: the caller has listed the ids for its own. SQL, because it compares
-- two lists of ids. Called by engine/jobs/actions/bulk_previews.py.
select count(*)::int
from (
  select unnest(:ids::uuid[])
  except
  select unnest(p.ids) from atlas.bulk_previews p where p.digest = :digest) arrived;
