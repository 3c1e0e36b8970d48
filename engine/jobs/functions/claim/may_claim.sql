-- Whether this worker may claim now. Locks in one statement and reads in the next, so that the read is younger than the lock.
-- A claimant without a worker row (p_worker null) carries a lease per job and needs only the gate.
-- Locks: gate, worker (both shared, until the transaction ends). Called by every function that starts something.
create or replace function may_claim(p_worker text) returns boolean language plpgsql volatile
set search_path from current as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a claim needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Claim outside of a serializable or repeatable read transaction.';
  end if;
  perform limit_idle();
  if not pg_try_advisory_xact_lock_shared(lock_class('gate'), 0) then
    return false;
  end if;
  if p_worker is null then
    return exists (select from system_state s where is_open(s));
  end if;
  if not pg_try_advisory_xact_lock_shared(lock_class('worker'), hashtext(p_worker)) then
    return false;
  end if;
  return exists (
    select from system_state s
    join job_workers w on w.worker_id = p_worker
    where is_open(s) and w.dead_at is null and w.lease_expires_at > clock_timestamp());
end $$;
