-- One decision at a time for tenants with rules that count, in order.
select pg_advisory_xact_lock(42714, hashtext(t.id))
from (select distinct unnest(:tenants::text[]) as id order by 1) t;
