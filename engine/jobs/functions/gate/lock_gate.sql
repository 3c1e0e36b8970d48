-- The gate's lock, exclusively: waits for the claims in flight, at most two seconds. Whoever holds it may change what claims are
-- allowed, and no claim comes between. Locks: gate. Called by switch_gate, pause_target, resume_target and engine/jobs/switches/gate.py, which ends the
-- sessions that block it.
create or replace function lock_gate() returns void language plpgsql volatile
set search_path from current as $$
declare
  lock_timeout_before text := current_setting('lock_timeout');
begin
  perform limit_idle();
  perform set_config('lock_timeout', '2s', true);
  perform pg_advisory_xact_lock(lock_class('gate'), 0);
  perform set_config('lock_timeout', lock_timeout_before, true);
end $$;
