-- Keeps which jobs run under the limits of types and tenants, with those that a claim is about to start: for the next count_limited_running, if it reads what is kept.
-- Called by pick_limited and claim_leased, which hold the lock `limits` until they commit.
create or replace function note_limited_running(p_ids uuid[]) returns void language plpgsql volatile
set search_path from current as $$
begin
  update counted_jobs k set n = default, ids = p_ids
  where k.limit_id = no_limit() and k.n = (select c.n from counted_jobs c where c.limit_id = no_limit() order by c.n desc limit 1);
end $$;
