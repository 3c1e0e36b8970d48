-- Locks the job rows of runs that are about to suspend, and what could wake them; each answers whether it may.
select id, verdict, certain
from atlas.hold_runs(:worker, :runs, :attempts, :event_runs, :event_keys);
