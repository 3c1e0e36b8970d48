-- The message of an error without what differs from job to job: addresses of mails, ids and numbers become `#`. Errors with the same
-- pattern have one cause, mostly. Its names are resolved when it is created, so that it needs no search_path of its own, which would
-- keep it from becoming a part of the statement that calls it. Called by job_matches and count_dead_letters.
create or replace function error_pattern(p_message text) returns text language sql immutable
return regexp_replace(
  case when strpos(p_message, '@') > 0 then regexp_replace(left(p_message, 300), '[^[:space:]]+@[^[:space:]]+', '#', 'g')
    else left(p_message, 300) end,
  '\m(?:0x)?[0-9a-f]*[0-9][0-9a-f-]*|[0-9]+', '#', 'gi');
