-- Releases held jobs of limits where something happened, or whose next token is there. Being a statement of its own, the claim after it
-- sees them. Wakes other workers for what the caller does not take: more than p_want jobs, or types that are not among p_types.
-- p_since: only of what happened since then, and of tokens since then.
-- busy: another claim is at one of them, so ask again. Called by claim_with_limits, claim_leased and engine/jobs/lease.py.
create or replace function release_held(p_want int, p_types text[], p_since timestamptz default '-infinity', out released int, out busy boolean) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
declare
  -- How many limits of each kind a call looks at, beginning anywhere, so that none waits for ever.
  most constant int := 64;
  start constant uuid := gen_random_uuid();
  one uuid;
  done int;
begin
  released := 0;
  busy := false;
  -- The second round is for the rates of tenants, behind the limits of types.
  for round in 1..2 loop
    for one in
      with recursive after as (
        (select e.limit_id from limit_events e where p_since = '-infinity' and e.limit_id >= start order by e.limit_id limit 1)
        union all
        select (select e.limit_id from limit_events e where e.limit_id > a.limit_id order by e.limit_id limit 1)
        from after a where a.limit_id is not null),
      before as (
        (select e.limit_id from limit_events e where p_since = '-infinity' and e.limit_id < start order by e.limit_id limit 1)
        union all
        select (select e.limit_id from limit_events e where e.limit_id > b.limit_id and e.limit_id < start order by e.limit_id limit 1)
        from before b where b.limit_id is not null)
      (select limit_id from after where limit_id is not null limit most)
      union
      (select limit_id from before where limit_id is not null limit most)
      union
      (select e.limit_id
       from (select n.limit_id, n.noted_at from limit_events n
             where p_since > '-infinity' and n.noted_at >= p_since order by n.noted_at limit 1000) e
       group by e.limit_id order by min(e.noted_at) limit most)
      union
      (select id from job_limits where release_at <= clock_timestamp() and release_at >= p_since order by release_at limit most)
    loop
      done := release_limit(one, 1000, p_types, p_since > '-infinity');
      busy := busy or done is null;
      released := released + coalesce(done, 0);
    end loop;
    exit when released = 0;
  end loop;
  if released > p_want then
    perform pg_notify(current_schema() || '_jobs', '');
  end if;
end $$;
