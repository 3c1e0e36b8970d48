-- The jobs of a server instance that run or can be queued again, locked until the end of the transaction, and their states. The
-- caller holds the instance, so no job is added. Locks: job rows in ascending id.
-- Called by engine/hosts/sql/hold_server_jobs.sql and move_server_instance.
create or replace function hold_server_jobs(p_instance uuid) returns table (id uuid, status job_status) language sql volatile
set search_path from current as $$
  select j.id, j.status from jobs j
  where j.id = any (array(
    select q.id from server_instances s
    join only jobs q on q.tenant_id = s.tenant_id and q.status = 'queued' and q.server_instance_id = s.id
    where s.id = p_instance
    union all
    select f.id from server_instances s
    join jobs f on f.tenant_id = s.tenant_id and f.status in ('failed', 'canceled') and f.server_instance_id = s.id
    where s.id = p_instance
    union all
    select r.id from server_instances s
    join only jobs r on r.claimed_by = 'host:' || s.host_id and r.status = 'running' and r.server_instance_id = s.id
    where s.id = p_instance))
  order by j.id
  for update;
$$;
