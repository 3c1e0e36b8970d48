-- A server instance goes to another host of its tenant, and with it its jobs: those that are queued, and those that a retry would
-- queue. Returns how many are queued; null where there is no such instance, or no such host of its tenant. It runs as the owner of
-- the tables, since a tenant may not change what its rows refer to: so it checks itself that a tenant's request moves its own.
-- The caller holds the instance, and has seen that none of its jobs runs. Locks: job rows in ascending id.
-- Called by engine/hosts/sql/move_server_instance.sql.
create or replace function move_server_instance(p_instance uuid, p_host uuid) returns int
language plpgsql volatile security definer
set search_path from current as $$
declare
  held uuid[];
  moved int;
begin
  perform from server_instances s
  join hosts h on h.tenant_id = s.tenant_id and h.id = p_host
  where s.id = p_instance
    and (current_setting('role') <> current_schema() || '_tenant'
      or s.tenant_id = nullif(current_setting('atlas.tenant', true), '')::uuid);
  if not found then
    return null;
  end if;
  held := array(select h.id from hold_server_jobs(p_instance) h where h.status <> 'running');
  update jobs set host_id = p_host, updated_at = clock_timestamp() where id = any (held);
  select count(*) into moved from jobs where id = any (held) and status = 'queued';
  update server_instances set host_id = p_host, updated_at = clock_timestamp() where id = p_instance;
  perform pg_notify(current_schema() || '_jobs', '');
  return moved;
end $$;
