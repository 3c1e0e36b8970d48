-- The fields of a job type's input as a hint shows them: `invoice_id (integer, required), note (string)`. Called by enqueue.
create or replace function input_fields(schema jsonb) returns text language sql immutable parallel safe
set search_path from current as $$
  select coalesce(string_agg(f.name || coalesce(' (' || nullif(concat_ws(', ',
      case when jsonb_typeof(f.definition) = 'object' then f.definition->>'type' end,
      case when schema->'required' ? f.name then 'required' end), '') || ')', ''), ', ' order by f.place), 'that its schema names')
  from jsonb_each(case jsonb_typeof(schema->'properties') when 'object' then schema->'properties' else '{}' end)
    with ordinality f(name, definition, place)
$$;
