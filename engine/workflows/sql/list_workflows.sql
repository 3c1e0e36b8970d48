-- The newest version of every workflow a tenant may start, by key; without a tenant, of all there are (operators).
-- With `after` those that come after that one; everyone's come after the tenants' own of the same key.
-- SQL, because the newest of each key is a `distinct on`.
select distinct on (w.key, coalesce(w.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')) w.id, w.tenant_id, w.key, w.version,
  w.kind::text, w.description, w.input_schema, w.document, w.is_enabled, w.created_by, w.created_at, w.updated_at, w.last_seen_at
from atlas.workflows w
where (:tenant_id::uuid is null or w.tenant_id is null or w.tenant_id = :tenant_id)
  and (:key::text is null or w.key = :key)
  and (:after::uuid is null
    or (w.key, coalesce(w.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')) > (
      select a.key, coalesce(a.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff') from atlas.workflows a where a.id = :after))
order by w.key, coalesce(w.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), w.version desc
limit :limit::bigint;
