-- Ends this session when its transaction is idle for four seconds between two statements, unless its own limit is shorter. Whoever takes the
-- gate's lock calls it: a process that freezes or vanishes keeps the gate from being switched no longer than that. Lasts until the transaction
-- ends. Called by claim, may_claim and lock_gate.
create or replace function limit_idle() returns void language plpgsql volatile
set search_path from current as $$
begin
  if current_setting('idle_in_transaction_session_timeout')::interval not between interval '1 millisecond' and interval '4 seconds' then
    perform set_config('idle_in_transaction_session_timeout', '4s', true);
  end if;
end $$;
