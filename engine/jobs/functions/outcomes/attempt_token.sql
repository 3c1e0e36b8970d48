-- The token of an attempt: proof that its worker let the caller commit it. Hashed twice, so that no one who has one can make another.
-- engine/jobs/attempts/attempt_commit.py makes the same. Called by commit_attempt.
create or replace function attempt_token(p_key bytea, p_job uuid, p_attempt int) returns text language sql immutable
return encode(sha256(p_key || sha256(p_key || convert_to(p_job::text || ':' || p_attempt::text, 'UTF8'))), 'hex');
