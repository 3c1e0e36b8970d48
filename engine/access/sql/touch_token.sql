-- Record that a token was used, at most once a minute: a busy token must not write with every request.
-- Called by engine/access/tokens.py. SQL, because the guard is on the database's clock.
update atlas.api_tokens
set last_used_at = clock_timestamp()
where id = :id
  and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute');
