-- Looks at up to p_limit finished jobs of a tenant, by id, and moves those that simply succeeded into history, where they are read like all others:
-- nothing ever changes such a job again. Stays where it is: what has an id that was not made by Atlas, or less than two hours ago; what is not metered yet, with an hour to spare for transactions in flight; runs, what runs or
-- groups started, and what has rows of its own elsewhere (attempts, secrets, mails, costs); rows that are locked. p_keep_days: for how long
-- the tenant keeps its jobs, null for ever. A job is deleted and inserted by one statement: a crash leaves it in one of the two places.
-- It runs as the owner of the tables. Locks: job rows in ascending id. Called by engine/history.py.
create or replace function move_to_history(
  p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_keep_days int
) returns table (looked int, last uuid, moved int) language plpgsql volatile security definer
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  metered constant timestamptz := (
    select (s.value->>'read_until')::timestamptz - interval '1 hour' from system_state s where s.key = 'usage_meter');
  batch uuid[];
  plain uuid[];
  finished record;
  count int;
begin
  batch := array(
    select j.id from only jobs j
    where j.tenant_id = p_tenant and j.status in ('succeeded', 'failed', 'canceled') and j.id > p_after and j.id < least(p_until, history_horizon(2))
    order by j.id limit p_limit);
  looked := cardinality(batch);
  last := batch[looked];
  moved := 0;
  if looked = 0 or metered is null then
    looked := 0;
    return next;
    return;
  end if;
  plain := array(
    select j.id from only jobs j
    where j.id = any (batch) and j.status = 'succeeded' and j.finished_at < metered and j.job_type <> 'ENGINE_RUN'
      and j.parent_run_id is null and j.group_id is null and j.cost_cents = 0
    order by j.id for update skip locked);
  -- In a newer snapshot than that of the locks: whoever adds a row to a job that is locked waits for it.
  plain := array(
    select p.id from unnest(plain) p(id)
    where not exists (select from job_attempts r where r.job_id = p.id)
      and not exists (select from job_secrets r where r.job_id = p.id)
      and not exists (select from mail_ledger r where r.job_id = p.id)
      and not exists (select from usage_costs r where r.job_id = p.id)
    order by p.id);
  for finished in
    select d.day, array_agg(j.id) as ids
    from only jobs j
    cross join lateral (select (j.finished_at at time zone 'UTC')::date as on_day) f
    cross join lateral (select case when p_keep_days is null then date_trunc('month', f.on_day)::date else f.on_day end as day) d
    where j.id = any (plain)
    group by d.day
  loop
    execute format(
      'with gone as (delete from only jobs j where j.id = any ($1) returning j.*) insert into %I select * from gone',
      add_history_part(p_keep_days, finished.day)) using finished.ids;
    get diagnostics count = row_count;
    moved := moved + count;
  end loop;
  return next;
end $$;
