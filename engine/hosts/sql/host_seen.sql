-- Records that a host asked for work or renewed a lease, at most every five seconds. Returns whether it exists and is active.
-- SQL, because the guard is on the database's clock.
with seen as (
  update atlas.hosts
  set last_seen_at = clock_timestamp(), agent_version = coalesce(:agent, agent_version)
  where id = :host_id
    and (last_seen_at is null or last_seen_at < clock_timestamp() - interval '5 seconds' or agent_version is distinct from coalesce(:agent::text, agent_version))
)
select is_active from atlas.hosts where id = :host_id;
