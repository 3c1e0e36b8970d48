-- The newest epoch, if a key has signed it and no event names one; no row otherwise. Read by audit/verification/verify.py. SQL, because a function finds
-- the events.
select e.epoch
from (select max(epoch) as epoch from atlas.audit_epoch) e
where exists (select from atlas.audit_checkpoint c where c.epoch = e.epoch)
  and not exists (select from atlas.key_events(e.epoch));
