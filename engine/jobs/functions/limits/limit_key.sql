-- A concurrency key, such as {{ input.customer }}, filled in from the input of a job. What the input lacks is refused (errcode AT422, the
-- column names the field): a job without its key would pass the limit. Called by enqueue_many.
create or replace function limit_key(p_template text, p_input jsonb, p_type text) returns text language plpgsql immutable parallel safe
set search_path from current as $$
declare
  field_pattern constant text := '\{\{\s*input\.([A-Za-z0-9_.-]+)\s*\}\}';
  texts constant text[] := regexp_split_to_array(p_template, field_pattern);
  fields constant text[] := array(select m[1] from regexp_matches(p_template, field_pattern, 'g') m);
  filled text := texts[1];
  value jsonb;
begin
  for n in 1..cardinality(fields) loop
    value := p_input #> string_to_array(fields[n], '.');
    if value is null or jsonb_typeof(value) not in ('string', 'number', 'boolean') then
      raise exception 'is needed for the concurrency key of %: a text, a number or a boolean', p_type
        using errcode = 'AT422', column = 'input.' || fields[n], hint = format('Give it a value: the key is %s.', p_template);
    end if;
    filled := filled || (value #>> '{}') || texts[n + 1];
  end loop;
  return filled;
end $$;
