-- Whole jobs by their ids, of one tenant or of all. Called by engine/jobs/find.py. The fields of its JobRow are the columns.
-- SQL, because a command that lists jobs has ended before the typed client is imported.
select :columns
from atlas.shown_jobs
where id = any (:ids::uuid[])
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
