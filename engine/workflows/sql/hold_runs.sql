-- Locks the job rows of runs that are about to suspend, and what could wake them; returns a verdict for each.
-- SQL, because a function does it.
select id, verdict, certain
from atlas.hold_runs(:worker, :runs, :attempts, :event_runs, :event_keys);
