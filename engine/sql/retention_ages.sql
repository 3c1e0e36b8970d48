-- How long each tenant keeps things. Looks across tenants: they are swept one by one.
select id, retention, clock_timestamp() as now
from atlas.tenants
order by id;
