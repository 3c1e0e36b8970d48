-- Workers alive, and what of a tenant, or of all, waits for a person: schedules that are late while Atlas is online, triggers whose last
-- firing failed, webhooks that Atlas disabled. Without a tenant it looks across all (operators). SQL, because it counts by the
-- database's clock.
select
  (select count(*)::int from atlas.job_workers where dead_at is null and lease_expires_at > statement_timestamp()) as workers,
  late.count as late_schedules, late.since as late_since, failing.count as failing_triggers, failing.since as failing_since,
  disabled.count as disabled_webhooks, disabled.since as disabled_since
from (
  select count(*)::int as count, min(next_fire_at) as since
  from atlas.job_triggers t
  where trigger_type = 'schedule'
    and is_enabled
    and not exists (select from atlas.pauses p where p.kind = 'trigger' and p.target = t.id::text)
    and coalesce(next_fire_at, '-infinity') < statement_timestamp() - make_interval(secs => :late_seconds)
    and next_fire_at is not null
    and (:tenant_id::uuid is null or tenant_id = :tenant_id)
    and exists (
      select from atlas.system_state s
      where atlas.is_open(s)
        and (s.value->>'since')::timestamptz < statement_timestamp() - make_interval(secs => :late_seconds))) late
cross join (
  select count(*)::int as count, min(updated_at) as since
  from atlas.job_triggers
  where is_enabled and last_error is not null and (:tenant_id is null or tenant_id = :tenant_id)) failing
cross join (
  select count(*)::int as count, min(updated_at) as since
  from atlas.webhooks
  where disabled_reason is not null and (:tenant_id is null or tenant_id = :tenant_id)) disabled;
