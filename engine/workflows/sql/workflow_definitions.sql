-- The definition that a start of each key would run now: the newest declared document, the tenant's own before everyone's, else the
-- code. `digest` is of the document, or the build that a worker published. Called by engine/workflows/review.py.
-- SQL, because it is a batch.
select u.tenant_id, u.key, w.id, w.version, w.kind::text,
  case w.kind when 'code' then w.build else encode(sha256(convert_to(w.document::text, 'UTF8')), 'hex') end as digest
from unnest(:tenants::uuid[], :keys::text[]) u(tenant_id, key)
cross join lateral (
  select w.id, w.version, w.kind, w.build, w.document
  from atlas.workflows w
  where w.key = u.key
    and (w.tenant_id = u.tenant_id or w.tenant_id is null)
  order by w.kind = 'declared' desc, w.tenant_id nulls last, w.version desc
  limit 1
) w;
