-- Worker seconds that were summed up at p_at, as they weigh now: e times less after a minute. Becomes a part of the statement, as is_ready.
-- Called by charge_tenants and share_of.
create or replace function faded(p_seconds float8, p_at timestamptz) returns float8 language sql volatile
return p_seconds * exp(-least(600, extract(epoch from clock_timestamp() - p_at) / 60));
