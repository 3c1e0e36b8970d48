-- Moves jobs from a table of history back to `jobs`, with all rows of theirs; what is stored of a tenant that has no more there goes too. Returns how many. A note
-- has how many jobs, attempts and steps of each tenant came back, so that a drop need not count: see count_history_part. It is a row of its own, so returns wait for no other. The
-- caller runs as the owner of the tables, and holds the lock of history, shared. Locks: rows of history in ascending id. Called by return_from_history and return_jobs.
create or replace function return_part(p_part text, p_ids uuid[]) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = auto set enable_seqscan = off set jit = off as $$
declare
  history_part constant text := substr(p_part, length('jobs_history_') + 1);
  note uuid;
  ids uuid[];
  tenants uuid[];
  statuses job_status[];
  side record;
  keys uuid[];
  attempts uuid[];
  steps uuid[];
begin
  execute format('select array_agg(l.id) from (select j.id from only %I j where j.id = any ($1) order by j.id for update) l', p_part) into ids using p_ids;
  if ids is null then
    return 0;
  end if;
  insert into history_changes (part, is_move) values (history_part, true) returning id into note;
  -- Deletions that this note counts need none of their own.
  perform set_config('atlas.history_note', note::text, true);
  execute format('with gone as (delete from only %I j where j.id = any ($1) returning j.*), back as (insert into jobs select * from gone)
    select array_agg(g.id), array_agg(g.tenant_id), array_agg(g.status) from gone g', p_part) into ids, tenants, statuses using ids;
  for side in
    select t.name, t.key, t.name || '_history_' || history_part as part from history_tables() t
    where to_regclass(t.name || '_history_' || history_part) is not null
  loop
    execute format('with gone as (delete from only %1$I s where s.%2$I = any ($1) returning s.*), back as (insert into %3$I select * from gone)
      select array_agg(g.%2$I) from gone g', side.part, side.key, side.name) into keys using ids;
    attempts := case when side.name = 'job_attempts' then keys else attempts end;
    steps := case when side.name = 'workflow_steps' then keys else steps end;
  end loop;
  perform set_config('atlas.history_note', '', true);
  update history_changes c set returned = (
    select jsonb_agg(to_jsonb(t))
    from (
      select j.tenant_id, count(*) as jobs, count(*) filter (where j.status = 'failed') as failed, count(*) filter (where j.status = 'canceled') as canceled,
        coalesce(sum(a.count), 0) as attempts, coalesce(sum(s.count), 0) as steps
      from unnest(ids, tenants, statuses) j(id, tenant_id, status)
      left join (select u.id, count(*) from unnest(attempts) u(id) group by u.id) a on a.id = j.id
      left join (select u.id, count(*) from unnest(steps) u(id) group by u.id) s on s.id = j.id
      group by j.tenant_id) t)
  where c.id = note;
  execute format($gone$
    delete from history_contents h
    where h.part = $1 and h.tenant_id = any ($2)
      and not exists (select from only %I p where p.tenant_id = h.tenant_id and p.status in ('succeeded', 'failed', 'canceled'))$gone$, p_part)
  using history_part, tenants;
  return cardinality(ids);
end $$;
