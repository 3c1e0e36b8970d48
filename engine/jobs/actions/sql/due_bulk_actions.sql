-- The bulk actions whose next step is due, longest due first. Across tenants: Atlas's own programs go on with all of them. SQL,
-- because what is due is said by the database's clock.
select id
from atlas.bulk_actions
where status = 'running'
  and next_step_at <= clock_timestamp()
  and (tenant_id is null or tenant_id <> all (atlas.moving_tenants()))
order by next_step_at
limit :limit;
