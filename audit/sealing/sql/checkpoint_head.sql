-- The tree's head and what has been signed of it: by which keys at this size, by which key in this epoch and overall, and the
-- key that an event names. The database's clock is the one that counts. SQL, because it reads several tables in one
-- snapshot, on the database's clock.
select s.n, s.size, s.root, s.epoch, clock_timestamp() as now,
  array(select c.key_name from atlas.audit_checkpoint c where c.size = s.size) as stored,
  (select c.key_name from atlas.audit_checkpoint c where c.epoch = s.epoch order by c.size desc limit 1) as signer,
  (select c.key_name from atlas.audit_checkpoint c order by c.size desc limit 1) as newest,
  (select k.meta ->> 'key' from atlas.key_events(s.epoch) k limit 1) as named
from atlas.audit_seal s
order by s.n desc
limit 1;
