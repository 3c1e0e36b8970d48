-- nothing -> a host of a tenant. No row: the tenant has a host of this name.
insert into atlas.hosts (id, tenant_id, name)
values (:id, :tenant_id, :name)
on conflict (tenant_id, name) do nothing
returning id, tenant_id, name, is_active, last_seen_at, created_at;
