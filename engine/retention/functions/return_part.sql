-- Moves jobs from a table of history back to `jobs`, with all rows of theirs; what is stored of a tenant that has no more there goes too. Returns how many. The caller runs as the owner of the tables. Locks: rows
-- of history in ascending id. Called by return_from_history and return_jobs.
create or replace function return_part(p_part text, p_ids uuid[]) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = auto set enable_seqscan = off set jit = off as $$
declare
  side record;
  count int;
begin
  execute format('select count(*) from (select from only %I j where j.id = any ($1) order by j.id for update) l', p_part) using p_ids;
  execute format('with gone as (delete from only %I j where j.id = any ($1) returning j.*) insert into jobs select * from gone', p_part) using p_ids;
  get diagnostics count = row_count;
  execute format($gone$
    delete from history_contents h
    where h.part = $1 and h.tenant_id in (select j.tenant_id from only jobs j where j.id = any ($2))
      and not exists (select from only %I p where p.tenant_id = h.tenant_id and p.status in ('succeeded', 'failed', 'canceled'))$gone$, p_part)
  using substr(p_part, length('jobs_history_') + 1), p_ids;
  for side in
    select t.name, t.key, t.name || substr(p_part, length('jobs') + 1) as part from history_tables() t
    where to_regclass(t.name || substr(p_part, length('jobs') + 1)) is not null
  loop
    execute format('with gone as (delete from only %1$I s where s.%2$I = any ($1) returning s.*) insert into %3$I select * from gone',
      side.part, side.key, side.name) using p_ids;
  end loop;
  return count;
end $$;
