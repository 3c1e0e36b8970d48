-- SHA-256 of what a row means: its columns as jsonb text, without those that change without an event. Written the same whatever
-- the settings of the session. Called by state_digests_without, and by what asks for approvals and ends them.
create or replace function state_digest(p_row anyelement, p_changing text[]) returns text language sql stable
set search_path from current set timezone = 'UTC' set bytea_output = 'hex' as $$
  select encode(sha256(convert_to((to_jsonb(p_row) - p_changing)::text, 'UTF8')), 'hex')
$$;
