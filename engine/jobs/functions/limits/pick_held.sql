-- Locks up to p_want jobs that a limit holds, by priority and age, and returns their ids. p_priorities, p_since: where they begin, see held_places; null: at the head of the index.
-- p_without_slot: only those that have no slot. Called by release_limit, under its plan settings.
create or replace function pick_held(p_limit uuid, p_priorities int[], p_since timestamptz[], p_want int, p_without_slot boolean) returns uuid[]
language plpgsql volatile
set search_path from current as $$
begin
  if p_priorities is null then
    return array(
      select id from only jobs
      where held_by = p_limit and status = 'queued' and next_retry_at >= '9999-01-01 00:00:00+00' and case when p_without_slot then has_slot is not true else true end
      order by priority desc, created_at limit p_want for update skip locked);
  end if;
  return array(
    select h.id
    from unnest(p_priorities, p_since) g(priority, since)
    cross join lateral (
      select j.id from only jobs j
      where j.held_by = p_limit and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00'
        and j.priority = g.priority and j.created_at >= g.since and case when p_without_slot then j.has_slot is not true else true end
      order by j.priority desc, j.created_at limit p_want for update skip locked) h
    limit p_want);
end $$;
