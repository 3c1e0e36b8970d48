-- The keys of the newest jobs in history of one list, at most p_limit, with the table that each is in; see job_keys for the lists. Tables are read one after the other, those
-- with the newest jobs first, until none that is left can have a newer key: so a page reads few of them, however many there are. A table without a bound in
-- history_bounds is read in any case; for a tenant, only tables that history_contents has it in, and for failed jobs those that hold some of it. It runs as the owner of the tables, since no one else has a right to those of history: so it checks itself that a tenant's request reads its own.
-- The condition of 'failed' is that of the function is_listed, which takes rows of `jobs` alone. Every table is planned by itself, in the order of its index, and does not depend on statistics: see list_jobs. Called by list_jobs.
create or replace function history_keys(
  p_list text, p_tenant_id uuid, p_correlation_id text, p_related_id uuid, p_before_at timestamptz, p_before uuid,
  p_after_at timestamptz, p_after uuid, p_limit int
) returns table (at timestamptz, id uuid, part text) language plpgsql stable security definer
set search_path from current set jit = off set enable_bitmapscan = off set enable_seqscan = off set random_page_cost = 0 set seq_page_cost = 0 as $$
#variable_conflict use_column
declare
  is_tenant constant boolean := current_setting('role') = current_schema() || '_tenant';
  asking constant uuid := case when is_tenant then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  tenant constant uuid := coalesce(asking, p_tenant_id);
  is_all constant boolean := tenant is null;
  is_mine constant text := case when is_all then '' else 'and j.tenant_id = $1' end;
  -- What has no order in an index is read as a whole: `offset 0` keeps the condition on the key apart.
  keys constant text := case
    when p_list = 'key' or (p_list = 'ended' and is_all) then format('only %%I j where true %s', is_mine)
    when p_list = 'ended' then 'only %I j where j.status in (''succeeded'', ''failed'', ''canceled'') and j.tenant_id = $1'
    when p_list = 'failed' and not is_all then 'only %I j where case when j.next_retry_at is null then j.status in (''failed'', ''canceled'') else true end
      and case when j.next_retry_at is not null then ''waiting'' when j.dead_lettered_at is not null then ''dead_letter'' else ''failed'' end = ''failed''
      and j.tenant_id = $1'
    when p_list = 'failed' then '(select j.id from only %I j where j.status in (''failed'', ''canceled'') offset 0) j where true'
    when p_list = 'ends' and not is_all then 'only %I j where j.status in (''failed'', ''canceled'') and j.tenant_id = $1'
    when p_list = 'ends' then '(select j.finished_at, j.id from only %I j where j.status in (''failed'', ''canceled'') offset 0) j where true'
    when p_list = 'correlation' and not is_all then 'only %I j where j.correlation_id = $2 and j.tenant_id = $1'
    when p_list = 'correlation' then '(select j.id from only %I j where j.correlation_id = $2 offset 0) j where true'
    when p_list = 'children' then format('only %%I j where j.parent_run_id = $3 %s', is_mine)
    when p_list = 'group' then format('(select j.id from only %%I j where j.group_id = $3 %s offset 0) j where true', is_mine) end;
  statement constant text := case when p_list = 'ends'
    then format('select j.finished_at, j.id from %s and (j.finished_at, j.id) < ($4, $5) and (j.finished_at, j.id) > ($6, $7)
      order by j.finished_at desc, j.id desc limit $8', keys)
    else format('select timestamptz ''infinity'', j.id from %s and j.id < $5 and j.id > $7 order by j.id desc limit $8', keys) end;
  last_id constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  ats timestamptz[] := '{}';
  ids uuid[] := '{}';
  parts text[] := '{}';
  bound_at timestamptz := p_after_at;
  bound uuid := p_after;
  candidate record;
  more_at timestamptz[];
  more_ids uuid[];
begin
  -- A tenant that is not named sees nothing, as by the policies.
  if (is_tenant and asking is null) or tenant <> p_tenant_id or keys is null then
    return;
  end if;
  for candidate in
    select c.relname::text as name,
      case when p_list = 'ends' then (to_date(right(c.relname, 8), 'YYYYMMDD')
        + case when c.relname like 'jobs\_history\_kept\_%' then interval '1 month' else interval '1 day' end) at time zone 'UTC' else 'infinity' end as at,
      case when p_list = 'ends' then last_id else coalesce(t.max_id, b.max_id, last_id) end as id
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    left join history_bounds b on b.part = substr(c.relname, length('jobs_history_') + 1)
    left join history_contents t on t.part = substr(c.relname, length('jobs_history_') + 1) and t.tenant_id = tenant
    where i.inhparent = 'jobs'::regclass
      and (is_all or t.part is not null and (p_list not in ('failed', 'ends') or coalesce(t.failed + t.canceled > 0, true)))
    order by 2 desc, 3 desc
  loop
    exit when (candidate.at, candidate.id) < (bound_at, bound);
    begin
      execute format('select array_agg(k.at), array_agg(k.id) from (' || statement || ') k(at, id)', candidate.name) into more_at, more_ids
        using tenant, p_correlation_id, p_related_id, p_before_at, p_before, bound_at, bound, p_limit;
    exception
      when undefined_table then continue;  -- dropped meanwhile
    end;
    if more_ids is not null then
      ats := ats || more_at;
      ids := ids || more_ids;
      parts := parts || array_fill(candidate.name, array[cardinality(more_ids)]);
      -- Sorted only when there are enough: a small tenant's offset would sort all keys again after each of its tables.
      if cardinality(ids) >= p_limit then
        select array_agg(k.at), array_agg(k.id), array_agg(k.part) into ats, ids, parts
        from (select k.at, k.id, k.part from unnest(ats, ids, parts) k(at, id, part) order by k.at desc, k.id desc limit p_limit) k;
        bound_at := ats[p_limit];
        bound := ids[p_limit];
      end if;
    end if;
  end loop;
  return query select k.at, k.id, k.part from unnest(ats, ids, parts) k(at, id, part);
end $$;
