-- What a worker's code says about a workflow; an operator's switch on it stays.
-- SQL, because a worker calls it, which does not load the generated client.
insert into atlas.workflows as w (tenant_id, key, version, kind, description, input_schema, created_by, build)
values (null, :key, 0, 'code', :description, :input_schema::text::jsonb, :created_by, :build)
on conflict on constraint workflows_key do update
set description  = excluded.description,
    input_schema = excluded.input_schema,
    build        = excluded.build,
    last_seen_at = clock_timestamp();
