-- Makes up to p_limit runs due that an ended pause held, and returns how many. They keep their order: that is by
-- priority and age. Looks at one run of each mark. Locks: job rows (skipping locked ones). Called by resume_target and
-- engine/jobs/switches/pauses.py.
create or replace function resume_runs(p_limit int) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off as $$
declare
  mark timestamptz;
  moved int := 0;
begin
  with recursive marks as (
    select (
      select j.next_retry_at from only jobs j
      where j.status = 'queued' and j.next_retry_at >= paused_until(0) and j.next_retry_at < '9999-12-31'
      order by j.next_retry_at limit 1) as at
    union all
    select (
      select j.next_retry_at from only jobs j
      where j.status = 'queued' and j.next_retry_at > m.at and j.next_retry_at < '9999-12-31'
      order by j.next_retry_at limit 1)
    from marks m where m.at is not null)
  select m.at into mark from marks m
  where m.at is not null and not exists (select from pauses p where paused_until(p.number) = m.at)
  limit 1;
  if mark is not null then
    update only jobs set next_retry_at = null
    where id = any (array(
        select id from only jobs where status = 'queued' and next_retry_at between mark and mark order by next_retry_at limit p_limit
        for update skip locked))
      and case when status = 'queued' and next_retry_at = mark then true else false end;
    get diagnostics moved = row_count;
    perform pg_notify(current_schema() || '_jobs', '');
  end if;
  return moved;
end $$;
