-- What an approval of a start is bound to: SHA-256 of the input and of the subject of the review. An approval from before reviews had
-- a subject is bound to the input alone. Called by engine/workflows/sql/ask_reviews.sql and engine/workflows/sql/lock_approval.sql.
create or replace function review_hash(p_input jsonb, p_subject jsonb) returns bytea language sql immutable
set search_path from current as $$
  select sha256(convert_to(p_input::text || coalesce(p_subject::text, ''), 'UTF8'))
$$;
