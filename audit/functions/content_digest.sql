-- SHA-256, in hex, of a JSON value as Postgres writes it. Called by enqueue_many, finish and audit/verification/sql/crosscheck_contents.sql.
create or replace function content_digest(p_value jsonb) returns text language sql immutable
return encode(sha256(convert_to(p_value::text, 'UTF8')), 'hex');
