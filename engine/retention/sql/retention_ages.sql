-- How long each tenant keeps what has finished. Looks across tenants: they are swept one by one. One that is being removed keeps nothing, one that is moved is left as it is.
-- SQL, because ages are counted on the database's clock.
select id, retention, clock_timestamp() as now
from atlas.tenants
where removing_at is null
  and moving_at is null
order by id;
