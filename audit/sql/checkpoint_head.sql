-- The tree's head and what has been signed of it in this epoch. The database's clock is the one that counts.
select s.n, s.size, s.root, s.epoch, clock_timestamp() as now,
  exists (select from atlas.audit_checkpoint c where c.size = s.size and c.key_name = :key_name) as stored,
  (select c.key_name from atlas.audit_checkpoint c where c.epoch = s.epoch order by c.size desc limit 1) as signer
from atlas.audit_seal s
order by s.n desc
limit 1;
