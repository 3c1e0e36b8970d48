-- Where the jobs that a limit holds begin: by priority, the highest first, when the oldest was created. p_priorities, p_since: where they began before; null: not
-- known, and the index is walked from its head. Called by release_limit, under its plan settings.
create or replace function held_places(p_limit uuid, inout p_priorities int[], inout p_since timestamptz[]) language plpgsql volatile
set search_path from current as $$
begin
  if p_priorities is null then
    with recursive walk as (
      (select j.priority, j.created_at from only jobs j
       where j.held_by = p_limit and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00'
       order by j.priority desc, j.created_at limit 1)
      union all
      select n.* from walk w
      cross join lateral (
        select j.priority, j.created_at from only jobs j
        where j.held_by = p_limit and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00' and j.priority < w.priority
        order by j.priority desc, j.created_at limit 1) n)
    select coalesce(array_agg(w.priority), '{}'), coalesce(array_agg(w.created_at), '{}') into p_priorities, p_since from walk w;
    return;
  end if;
  select coalesce(array_agg(g.priority), '{}'), coalesce(array_agg(f.created_at), '{}') into p_priorities, p_since
  from unnest(p_priorities, p_since) g(priority, since)
  cross join lateral (
    select j.created_at from only jobs j
    where j.held_by = p_limit and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00' and j.priority = g.priority and j.created_at >= g.since
    order by j.priority desc, j.created_at limit 1) f;
end $$;
