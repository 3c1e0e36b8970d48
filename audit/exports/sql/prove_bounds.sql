-- The seals of an epoch, and the highest id in its ordinary ones. SQL, because it has aggregates with filters.
select min(n) as first, max(n) as last,
  min(n) filter (where rest) as rest,
  (select max_id from atlas.audit_seal b where b.epoch = :epoch and not b.rest order by b.n desc limit 1) as boundary
from atlas.audit_seal
where epoch = :epoch;
