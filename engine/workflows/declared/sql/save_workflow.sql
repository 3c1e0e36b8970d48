-- nothing -> the next version of a declared workflow, disabled if the one before it is, also where that is code's. No row:
-- another transaction saved it at the same time, or the newest version is not the expected one. Called by
-- engine/workflows/declared/store.py. SQL, because it reads and writes in one statement.
insert into atlas.workflows (tenant_id, key, version, kind, description, input_schema, document, is_enabled, created_by)
select :tenant_id::uuid, :key::text, coalesce(max(w.version), 0) + 1, 'declared', :description::text, :input_schema::text::jsonb,
  :document::text::jsonb, coalesce((array_agg(w.is_enabled order by w.version desc))[1], true), :created_by::text
from atlas.workflows w
where w.key = :key
  and w.tenant_id is not distinct from :tenant_id
having :expected::int is null or coalesce(max(w.version), 0) = :expected
on conflict on constraint workflows_key do nothing
returning id, version, is_enabled, updated_at;
