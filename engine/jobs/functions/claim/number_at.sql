-- The number that an object has under a name, or null where it has none. Called by schema_mistake.
create or replace function number_at(document jsonb, name text) returns numeric language sql immutable parallel safe
return case jsonb_typeof(document->name) when 'number' then (document->>name)::numeric end;
