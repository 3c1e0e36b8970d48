-- One decision at a time for tenants with rules that count, in order. Called by engine/policy/judge.py. SQL, because Prisma has no
-- advisory locks.
select pg_advisory_xact_lock(atlas.lock_class('policy'), hashtext(t.id))
from (select distinct unnest(:tenants::text[]) as id order by 1) t;
