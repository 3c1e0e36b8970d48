-- nothing -> the next version of a declared workflow. No row: another one saved it at this moment.
insert into workflows (tenant_id, key, version, kind, description, input_schema, document, created_by)
select :tenant_id::uuid, :key::text, coalesce(max(w.version), 0) + 1, 'declared', :description::text, :input_schema::text::jsonb,
  :document::text::jsonb, :created_by::text
from workflows w
where w.key = :key
  and w.tenant_id is not distinct from :tenant_id
  and w.kind = 'declared'
on conflict on constraint workflows_key do nothing
returning id, version;
