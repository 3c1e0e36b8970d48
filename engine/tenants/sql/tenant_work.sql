-- What a tenant has that has not ended, each kind counted up to a limit. Called by engine/tenants/removal.py.
-- SQL, because every count stops at its limit.
select
  (select count(*) from (select from only atlas.jobs where tenant_id = :tenant_id and status = 'queued' limit :limit::int) q) as queued,
  (select count(*) from (select from only atlas.jobs where tenant_id = :tenant_id and status = 'running' limit :limit::int) r) as running,
  (select count(*) from (
    select from atlas.intents where tenant_id = :tenant_id and status in ('draft', 'validating', 'awaiting_human') limit :limit::int) i) as requests,
  (select count(*) from atlas.recurring_runs where tenant_id = :tenant_id and lease_expires_at > clock_timestamp()) as functions;
