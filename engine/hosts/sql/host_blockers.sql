-- What keeps a host from being removed: its servers, and its jobs that have not ended. The caller holds the host, so none is added.
-- Called by engine/hosts/hosts.py. SQL, because it counts in two tables.
select
  (select count(*)::int from atlas.server_instances s where s.host_id = :id and s.tenant_id = :tenant_id) as servers,
  (select count(*)::int from only atlas.jobs j where j.tenant_id = :tenant_id and j.status = 'queued' and j.host_id = :id) as "queued jobs",
  (select count(*)::int from only atlas.jobs j where j.claimed_by = 'host:' || :id::uuid and j.tenant_id = :tenant_id and j.status = 'running')
    as "running jobs";
