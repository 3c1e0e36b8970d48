-- What an export of a tenant says about where it comes from: the cluster, the last migration, the number of the last event, the definitions and shared
-- workflows that its jobs and runs name by ids of this installation, and the keys that its secrets are encrypted with. Called by
-- engine/tenants/move_export.py. SQL, because it reads the catalogs and aggregates several tables.
select clock_timestamp() as now, atlas.system_identifier()::text as cluster, atlas.event_cursor() as event_cursor,
  (select max(migration_name) from atlas._prisma_migrations) as migration,
  (select coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'key', d.key)), '[]') from atlas.job_definitions d
   where d.id in (select j.definition_id from atlas.jobs j where j.tenant_id = :tenant_id)
     or d.key in (select t.definition_key from atlas.job_triggers t where t.tenant_id = :tenant_id))::text as definitions,
  (select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'key', w.key, 'version', w.version)), '[]') from atlas.workflows w
   where w.tenant_id is null and w.id in (select r.workflow_id from atlas.workflow_runs r where r.tenant_id = :tenant_id))::text as workflows,
  array(
    select s.key_id from atlas.job_secrets s join atlas.jobs j on j.id = s.job_id where s.tenant_id = :tenant_id and j.status = 'queued'
    union select key_id from atlas.webhooks where tenant_id = :tenant_id
    union select key_id from atlas.inbound_hooks where tenant_id = :tenant_id) as secret_keys;
