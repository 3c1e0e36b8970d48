-- The tables that move with a tenant, the tenant itself first, with their columns. Called by engine/tenants/move_export.py and engine/tenants/move_import.py. SQL,
-- because it reads the catalogs.
select t.name, array(
    select a.attname::text from pg_catalog.pg_attribute a
    where a.attrelid = ('atlas.' || t.name)::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns
from (
  select 0 as n, 'tenants' as name
  union all
  select t.n, t.name from atlas.tenant_tables() with ordinality t(name, is_by_job, n)
  union all
  select 1000000, 'audit_private') t
order by t.n;
