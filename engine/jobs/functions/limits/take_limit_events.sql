-- Takes the events of a limit whose jobs are counted by what is kept. Returns how many jobs have started since they were taken last, and where held jobs begin: what is kept and
-- the places of those that became held; null if that is not known of one.
-- taken_to: no greater id than this was taken before every transaction that had a smaller one ended, so the next call reads from there on. A transaction has its own id before its events have theirs:
-- those that begin from next_xid on have greater ids than next_ids. Called by release_limit, under its plan settings.
create or replace function take_limit_events(
  p_kept counted_jobs, out began int, out priorities int[], out since timestamptz[], out taken_to bigint, out next_ids bigint, out next_xid xid8
) language plpgsql volatile
set search_path from current as $$
declare
  have_ended constant boolean := pg_snapshot_xmin(pg_current_snapshot()) >= p_kept.next_xid;
begin
  with taken as (
    delete from limit_events where limit_id = p_kept.limit_id and id > p_kept.ids_from returning id, started, priority, held_since),
  places as (
    select p.priority, min(p.since) as since
    from (
      select k.priority, k.since from unnest(p_kept.priorities, p_kept.held_since) k(priority, since)
      union all
      select t.priority, t.held_since from taken t where t.held_since is not null) p
    group by p.priority)
  select (select count(*) filter (where t.started) from taken t), (select greatest(max(t.id), p_kept.next_ids) from taken t),
    coalesce(array_agg(p.priority order by p.priority desc), '{}'), coalesce(array_agg(p.since order by p.priority desc), '{}')
  into began, next_ids, priorities, since from places p;
  if '-infinity' = any (since) then
    priorities := null;
  end if;
  if have_ended then
    taken_to := coalesce(p_kept.next_ids, 0);
    next_xid := pg_snapshot_xmax(pg_current_snapshot());
  else
    taken_to := p_kept.ids_from;
    next_ids := p_kept.next_ids;
    next_xid := p_kept.next_xid;
  end if;
end $$;
