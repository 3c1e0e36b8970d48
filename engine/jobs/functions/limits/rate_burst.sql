-- How many jobs may start at once after a rest: what was chosen, else a tenth of the rate's number. Becomes a part of the statement,
-- as is_ready. Called by release_limit.
create or replace function rate_burst(p_rate text, p_burst int) returns int language sql immutable parallel safe
return coalesce(p_burst, greatest(1, split_part(p_rate, '/', 1)::int / 10));
