-- What the planner expects of each status: for counts too large to be counted.
select s.status, atlas.estimate_rows(:tenant_id::uuid, s.status) as estimate
from unnest(:statuses::text[]) s(status);
