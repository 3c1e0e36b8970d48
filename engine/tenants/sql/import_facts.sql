-- What an import compares its file with: whether the tenant is here, its audit log was here before, and what its jobs need. Called by
-- engine/tenants/move_import.py. SQL, because it compares several tables.
select atlas.event_cursor() as event_cursor,
  exists (select from atlas.tenants where id = :tenant_id) as has_id,
  exists (select from atlas.tenants where slug = :slug) as has_slug,
  array(select k from unnest(:definitions::text[]) k where not exists (select from atlas.job_definitions d where d.key = k)) as no_definitions,
  array(
    select o.key || ' ' || o.version from unnest(:workflows::text[], :versions::int[]) o(key, version)
    where not exists (
      select from atlas.workflows w where w.key = o.key and w.version = o.version and w.tenant_id is null)) as no_workflows;
