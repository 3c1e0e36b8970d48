-- What a list shows of the error of a job. Its names are resolved when it is created, so that it needs no search_path of its own, which
-- would keep it from becoming a part of the statement that calls it. Called by engine/jobs/sql/list.sql and list_rows.sql.
create or replace function brief_error(p_error jsonb) returns jsonb language sql immutable
return jsonb_strip_nulls(jsonb_build_object(
  'message', left(p_error->>'message', 300), 'type', left(p_error->>'type', 200), 'outcome', p_error->'outcome'));
