-- A webhook -> failing, since its first failed delivery; or disabled, where its server is gone or it has failed for too long.
-- Returns the row if it is disabled now. Called by engine/webhooks/target.py. SQL, because it locks, and its guard is on the
-- database's clock.
with failed as (
  update atlas.webhooks w
  set failing_since   = coalesce(w.failing_since, clock_timestamp()),
      last_error      = :error,
      is_enabled      = not d.over,
      disabled_reason = case when d.over then :reason end,
      updated_at      = case when d.over then clock_timestamp() else w.updated_at end
  from (
    select id, :gone or coalesce(failing_since <= clock_timestamp() - :max_seconds::float8 * interval '1 second', false) as over
    from atlas.webhooks
    where id = :id
      and is_enabled
    for update
  ) d
  where w.id = d.id
  returning w.id, w.tenant_id, w.url, w.events, w.description, w.is_enabled, w.disabled_reason, w.failing_since, w.last_error, w.created_by, w.created_at, w.updated_at
)
select id, tenant_id, url, events, description, is_enabled, disabled_reason, failing_since, last_error, created_by, created_at, updated_at
from failed
where not is_enabled;
