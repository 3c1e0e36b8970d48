-- The outcomes of steps -> durable, for runs this worker still drives; the numbers of the others come back.
-- Looks across tenants: a worker serves them all. SQL, because a function does it.
select is_open, some_are_paused, busy, lost
from atlas.record_steps(
  :worker, :again, :runs, :attempts, :branches, :positions, :names, :kinds, :statuses, :tries, :seconds, :inputs, :outputs, :errors,
  :known, :reset);
