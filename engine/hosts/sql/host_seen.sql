-- A host asks for work, or keeps it: remembered at most every five seconds. Answers whether it exists and may have any.
with seen as (
  update atlas.hosts
  set last_seen_at = clock_timestamp()
  where id = :host_id
    and (last_seen_at is null or last_seen_at < clock_timestamp() - interval '5 seconds')
)
select is_active from atlas.hosts where id = :host_id;
