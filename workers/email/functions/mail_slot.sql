-- Reserves the next send slot that every one of the buckets allows. Of n messages a minute a tenth may go at once after
-- a pause, or as few as `p_at_once` says, and the rest evenly, so that no sixty seconds of slots hold more than n.
-- Locks: mail_pace rows in the order of their names.
create or replace function mail_slot(p_buckets text[], p_per_minute int[], p_at_once int[] default null)
returns timestamptz language plpgsql volatile
set search_path from current as $$
declare
  slot timestamptz;
begin
  -- In one order everywhere, so that two mails never wait for each other, also where a bucket is new.
  insert into mail_pace (bucket, next_at) select b, '-infinity' from unnest(p_buckets) b order by b on conflict do nothing;
  perform from mail_pace where bucket = any (p_buckets) order by bucket for update;
  select greatest(clock_timestamp(), max(m.next_at - (b.burst - 1) * (interval '1 minute' / (u.per_minute - b.burst + 1)::float8)))
  into slot
  from unnest(p_buckets, p_per_minute, p_at_once) u(bucket, per_minute, at_once)
  join mail_pace m on m.bucket = u.bucket
  cross join lateral (select least(ceil(u.per_minute / 10.0), u.at_once) as burst) b;
  update mail_pace m
  set next_at = greatest(m.next_at, slot)
    + interval '1 minute' / (u.per_minute - least(ceil(u.per_minute / 10.0), u.at_once) + 1)::float8
  from unnest(p_buckets, p_per_minute, p_at_once) u(bucket, per_minute, at_once)
  where m.bucket = u.bucket;
  return slot;
end $$;
