-- A time-ordered id (UUIDv7), as atlas/ids.py makes them: milliseconds, twelve bits of their fraction, and random bits. Lists of jobs
-- go by their ids. Called by enqueue.
create or replace function new_id() returns uuid language sql volatile parallel safe
return (
  select (lpad(to_hex(t.tick >> 12), 12, '0') || '7' || lpad(to_hex(t.tick & 4095), 3, '0')
    || right(replace(gen_random_uuid()::text, '-', ''), 16))::uuid
  from (select floor(extract(epoch from clock_timestamp()) * 4096000)::bigint as tick) t);
