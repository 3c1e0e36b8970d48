-- running -> lost, for runs whose lease is over: their processes died, or could not reach the database. Returns them.
-- Locks: recurring_runs (skipping locked ones), then their schedules. Called by claim_recurring and engine/schedules/recurring_runs.py.
create or replace function sweep_recurring() returns setof recurring_runs language plpgsql volatile
set search_path from current as $$
declare
  run recurring_runs;
begin
  for run in
    select * from recurring_runs r
    where r.finished_at is null and r.lease_expires_at < clock_timestamp()
    for update skip locked
  loop
    perform finish_recurring(run.id, 'lost', 'Its process ended, or could not reach the database, and its lease is over.');
    return next run;
  end loop;
end $$;
