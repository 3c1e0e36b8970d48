-- Whether a tenant, or any (with :tenant_id null), has this host. Called by engine/hosts/hosts.py for every request of a host.
-- SQL, because heartbeats and reports are among them.
select exists (
  select from atlas.hosts
  where id = :id
    and (:tenant_id::uuid is null or tenant_id = :tenant_id));
