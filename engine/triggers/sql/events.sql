-- Events that are not handled yet. Not locked: fire_triggers handles those that are still so. By a mark on each, not by a cursor over them:
-- an event that is committed late may have a lower id than those handled already.
-- Without those that the caller leaves out. Looks across tenants: one scheduler serves them all.
-- Called by engine/triggers/fire_events.py. SQL, because the age is measured on the database's clock.
select id, tenant_id, name, context, correlation_id, created_at
from atlas.events
where handled_at is null
  and run_id is null
  and tenant_id <> all (atlas.moving_tenants())
  and created_at <= clock_timestamp() - make_interval(secs => :late_by)
  and id <> all (:without::uuid[])
order by seq
limit :limit;
