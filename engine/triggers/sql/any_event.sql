-- Whether there is an event that is not handled yet and at least so old. Looks across tenants: one scheduler serves them all.
-- SQL, because the age is measured on the database's clock.
select exists (
  select from atlas.events
  where handled_at is null
    and run_id is null
    and tenant_id <> all (atlas.moving_tenants())
    and created_at <= clock_timestamp() - make_interval(secs => :late_by));
