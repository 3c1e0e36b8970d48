-- The host of a job, from its server instance or as named, within the job's tenant; and whether its type is published. The instance
-- stays where it is, and the host stays, until the job is enqueued: a move or a removal waits for this transaction, and this one
-- for a move or a removal. Called by engine/jobs/new_jobs/placement.py. SQL, because Prisma has no row locks.
with instance as (
  select host_id
  from atlas.server_instances
  where id = :instance_id::uuid and tenant_id = :tenant_id
  for share
),
host as (
  select id, is_active
  from atlas.hosts
  where id = coalesce(:host_id::uuid, (select host_id from instance)) and tenant_id = :tenant_id
  for key share
)
select s.host_id as instance_host, h.id as host, h.is_active,
  exists (select from atlas.job_types y where y.key = :job_type) as known_type
from (select) nothing
left join instance s on true
left join host h on true;
