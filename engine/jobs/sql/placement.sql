-- The host of a job, from its server instance or as named, within the job's tenant; and whether its type is published.
select s.host_id as instance_host, h.id as host, h.is_active,
  exists (select from atlas.job_types y where y.key = :job_type) as known_type
from (select) nothing
left join atlas.server_instances s on s.id = :instance_id::uuid and s.tenant_id = :tenant_id
left join atlas.hosts h on h.id = coalesce(:host_id::uuid, s.host_id) and h.tenant_id = :tenant_id;
