-- Jobs by their ids, as lists show them: without inputs and outputs, and with the beginning of their errors.
-- Called by engine/jobs/find.py. The fields of its JobRow are the columns.
-- SQL, because a command that lists jobs has ended before the typed client is imported.
select :columns
from atlas.listed_jobs
where id = any (:ids::uuid[])
  and (:tenant_id::uuid is null or tenant_id = :tenant_id);
