-- The jobs that a limit has released and still counts: with a slot of its concurrency, or not started, so that they are promised a token. Of p_ids; null: of all, by the indexes.
-- Called by release_limit, under its plan settings. The order is that of the one index to use: by its statistics, that of all queued jobs may look cheaper, and is walked from end to end.
create or replace function released_jobs(p_limit uuid, p_ids uuid[]) returns uuid[] language plpgsql volatile
set search_path from current as $$
begin
  if p_ids is null then
    return array(
      select id from only jobs
      where limit_id between p_limit and p_limit and status in ('queued', 'running') and (has_slot or held_by is distinct from limit_id)
        and case when status = 'running' then has_slot else true end
      order by limit_id)
    || array(select id from only jobs where rate_id between p_limit and p_limit and status = 'queued' and held_by is null order by rate_id);
  end if;
  return array(
    select j.id from only jobs j
    where j.id = any (p_ids)
      and case when j.status not in ('queued', 'running') then false
               when j.limit_id = p_limit then j.has_slot is true or (j.status = 'queued' and j.held_by is distinct from p_limit)
               else j.status = 'queued' and j.held_by is null end);
end $$;
