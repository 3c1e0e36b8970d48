-- running -> ended, fenced by the run, which ends once. Its schedule waits for the next run, or goes if there is none. SQL,
-- because a function does it.
select atlas.finish_recurring(:run_id, :outcome, :error);
