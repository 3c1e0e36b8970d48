-- A rate such as 100/minute in starts per second. Becomes a part of the statement, as is_ready. Called by release_limit.
create or replace function rate_per_second(p_rate text) returns float8 language sql immutable parallel safe
return split_part(p_rate, '/', 1)::float8
    / case split_part(p_rate, '/', 2) when 'second' then 1 when 'minute' then 60 when 'hour' then 3600 else 86400 end;
