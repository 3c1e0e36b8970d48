-- The first place where a value does not fit a JSON Schema, for callers of enqueue; no row where it fits. It never refuses what
-- engine/schemas.py accepts. Patterns and formats are left to the worker, which checks every input before its handler runs: the
-- expressions of Postgres are not those of JSON Schema. So are the items of a list after the first thousand. `root` is the whole schema, for references within it. Called by enqueue.
create or replace function schema_mistake(schema jsonb, value jsonb, root jsonb default null, path text default 'input')
returns table (field text, reason text) language plpgsql immutable parallel safe
set search_path from current as $$
#variable_conflict use_variable
declare
  whole constant jsonb := coalesce(root, schema);
  kind constant text := jsonb_typeof(value);
  size numeric;
  part record;
  fitting int;
begin
  field := path;
  if jsonb_typeof(schema) = 'boolean' and not schema::boolean then
    reason := 'is not allowed';
    return next;
  end if;
  if jsonb_typeof(schema) is distinct from 'object' then
    return;
  end if;

  -- What the value itself must be.
  size := case kind when 'number' then value::numeric when 'string' then length(value #>> '{}') when 'array' then jsonb_array_length(value)
    when 'object' then (select count(*) from jsonb_object_keys(value)) end;
  select m.reason into reason from (values
    (format('is not of the type %s', replace(translate((schema->'type')::text, '[]"', ''), ', ', ' or ')), schema ? 'type'
      and not (schema->'type') @> to_jsonb(kind)
      and not (kind = 'number' and (schema->'type') @> '"integer"' and size % 1 = 0)),
    ('is not one of the values that are allowed', schema ? 'enum' and not exists (
      select from jsonb_array_elements(case jsonb_typeof(schema->'enum') when 'array' then schema->'enum' else '[]' end) e where e = value)),
    ('is not the value that is allowed', schema->'const' <> value),
    ('is too small', kind = 'number' and (size < number_at(schema, 'minimum') or size <= number_at(schema, 'exclusiveMinimum'))),
    ('is too large', kind = 'number' and (size > number_at(schema, 'maximum') or size >= number_at(schema, 'exclusiveMaximum'))),
    ('is too short', size < number_at(schema, case kind when 'string' then 'minLength' when 'array' then 'minItems'
      when 'object' then 'minProperties' end)),
    ('is too long', size > number_at(schema, case kind when 'string' then 'maxLength' when 'array' then 'maxItems'
      when 'object' then 'maxProperties' end))
  ) m(reason, is_wrong) where m.is_wrong limit 1;
  if reason is not null then
    return next;
    return;
  end if;

  -- A field that is missing, then the schemas of its fields and items, and those that must all fit.
  for part in
    select path || '.' || r.name as path, null::jsonb as value, 'false'::jsonb as schema, 'is missing' as reason
    from jsonb_array_elements_text(case when kind = 'object' and jsonb_typeof(schema->'required') = 'array' then schema->'required' else '[]' end) r(name)
    where not value ? r.name
    union all
    select path || '.' || f.name, f.value, coalesce(schema->'properties'->f.name,
      case when not schema ? 'patternProperties' then schema->'additionalProperties' end), null
    from jsonb_each(case when kind = 'object' then value else '{}' end) f(name, value)
    union all
    select path || '.' || (i.n - 1), i.value, coalesce(schema->'prefixItems'->(i.n - 1)::int, schema->'items'), null
    from jsonb_array_elements(case when kind = 'array' then value else '[]' end) with ordinality i(value, n)
    where i.n <= 1000
    union all
    select path, value, s.schema, null
    from jsonb_array_elements(case jsonb_typeof(schema->'allOf') when 'array' then schema->'allOf' else '[]' end) s(schema)
    union all
    select path, value, whole #> string_to_array(substr(schema->>'$ref', 3), '/'), null where schema->>'$ref' ~ '^#(/|$)'
  loop
    if part.reason is not null then
      field := part.path;
      reason := part.reason;
      return next;
      return;
    end if;
    return query select * from schema_mistake(part.schema, part.value, whole, part.path) m limit 1;
    if found then
      return;
    end if;
  end loop;

  -- At least one of them must fit, or exactly one.
  for part in
    select w.name, w.schemas from (values ('anyOf', schema->'anyOf'), ('oneOf', schema->'oneOf')) w(name, schemas)
    where jsonb_typeof(w.schemas) = 'array'
  loop
    select count(*) filter (where not exists (select from schema_mistake(s.schema, value, whole, path))) into fitting
    from jsonb_array_elements(part.schemas) s(schema);
    if fitting = 0 then
      reason := 'fits none of the schemas that are allowed';
      return next;
      return;
    end if;
  end loop;
end $$;
