-- A webhook -> changed. One that is enabled again, or gets another address, has not failed yet, and gets what happens from now on.
-- The caller has locked the row. Called by engine/webhooks/store.py. SQL, because what it sets depends on the row as it was,
-- and on the database's clock.
update atlas.webhooks w
set url             = :url,
    events          = :events::text[],
    description     = :description,
    is_enabled      = :is_enabled,
    disabled_reason = case when not :is_enabled then w.disabled_reason end,
    failing_since   = case when w.is_enabled and w.url = :url then w.failing_since end,
    last_error      = case when w.is_enabled and w.url = :url then w.last_error end,
    active_since    = case when w.is_enabled then w.active_since else clock_timestamp() end,
    updated_at      = clock_timestamp()
where id = :id;
