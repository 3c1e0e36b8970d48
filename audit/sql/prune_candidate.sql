-- The last seal older than a given age whose rows may be removed: it closes its window and a checkpoint covers it. SQL, because
-- the age is counted on the database's clock.
select s.n
from atlas.audit_seal s
where s.sealed_at < clock_timestamp() - :older_than::interval
  and s.closes
  and s.n > coalesce((select max(through_seal) from atlas.audit_pruned), 0)
  and s.size <= (select max(size) from atlas.audit_checkpoint)
order by s.n desc
limit 1;
