-- Webhooks that fail, and for which too many deliveries wait -> disabled. Looks across tenants: the scheduler serves them all.
-- Called by engine/webhooks/deliver.py. SQL, because every count stops at its limit, and the change depends on it.
update atlas.webhooks w
set is_enabled      = false,
    disabled_reason = :reason,
    updated_at      = clock_timestamp()
where w.is_enabled
  and w.failing_since is not null
  and (
    select count(*)
    from (
      select
      from only atlas.jobs j
      where j.tenant_id = w.tenant_id
        and j.status = 'queued'
        and j.job_type = 'HTTP_CALL'
        and j.source_ref = w.id::text
      limit :most::int
    ) waiting
  ) >= :most::int
returning w.id, w.tenant_id, w.url, w.events, w.description, w.is_enabled, w.disabled_reason, w.failing_since, w.last_error, w.created_by, w.created_at, w.updated_at;
