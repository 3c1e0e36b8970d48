-- Keeps the set of jobs of a preview under its digest: of the action, the tenant, the filter, the time and the ids. SQL, because the time is
-- on the database's clock. Called by engine/jobs/actions/bulk_previews.py.
with preview as materialized (
  select clock_timestamp()::timestamptz(6) as as_of
)
insert into atlas.bulk_previews (digest, tenant_id, action, filter, ids, left_out, complete, created_by, as_of)
select encode(sha256(convert_to(
    jsonb_build_array(:action::text, :tenant_id::uuid, :filter::jsonb, p.as_of)::text || array_to_string(:ids::uuid[], ','), 'UTF8')), 'hex'),
  :tenant_id, :action, :filter, :ids, :left_out::jsonb, :complete, :created_by, p.as_of
from preview p
returning digest, as_of;
