-- Moves jobs whose time has come to the ready indexes, or to where their limit holds them. Being a statement of its own, the claim after
-- it sees them. Only those that fell due since p_since. Returns how many.
-- Called by claim_with_limits and promote_due.
create or replace function promote_due_since(p_limit int, p_since timestamptz) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off as $$
declare
  moved int := 0;
begin
  if (select true from only jobs where status = 'queued' and next_retry_at <= statement_timestamp() and next_retry_at >= p_since
      order by next_retry_at limit 1) then
    with due as (
      update only jobs
      set next_retry_at = case when held_by is not null then '9999-12-31 00:00:00+00'::timestamptz end, due_at = next_retry_at
      where id = any (array(
          select id from only jobs where status = 'queued' and next_retry_at <= statement_timestamp() and next_retry_at >= p_since
          order by next_retry_at limit p_limit for update skip locked))
        and case when status = 'queued' then true else false end
      returning held_by, tenant_id, priority, created_at),
    held as (
      insert into limit_events (limit_id, tenant_id, priority, held_since)
      select held_by, tenant_id, priority, min(created_at) from due where held_by is not null group by held_by, tenant_id, priority)
    select count(*) into moved from due;
  end if;
  return moved;
end $$;
