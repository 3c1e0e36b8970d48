-- A moving tenant -> as before: it may be resumed here. Due times of its schedules that passed meanwhile were missed.
-- Called by engine/tenants/move.py. SQL, because it is guarded by the state.
with resumed as (
  update atlas.tenants t
  set moving_at = null, moving_to = null, updated_at = clock_timestamp()
  from (select id, moving_at from atlas.tenants where id = :id) before
  where t.id = before.id
    and t.moving_at is not null
    and t.removing_at is null
  returning t.id, before.moving_at
),
missed as (
  update atlas.job_triggers g
  set outages = g.outages + tstzmultirange(tstzrange(r.moving_at, clock_timestamp(), '(]'))
  from resumed r
  where g.tenant_id = r.id
    and g.trigger_type = 'schedule'
)
select id
from resumed;
