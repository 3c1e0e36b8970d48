-- A page of jobs, newest first, or in the order of their ends (the list 'ends'). Without a tenant it looks across all (operators).
-- No index holds every job of a tenant, nor the queued ones of all tenants in the order of their ids: the page is merged from lists
-- (see the function job_keys), each of one tenant. Of each list the few newest keys are read first. The p_examined newest of them are a bound:
-- only a list whose last key is newer is read on, and then once more. So at most some times p_examined keys are read, however many
-- tenants there are and however their jobs are spread.
-- The jobs of the p_examined newest keys are compared with the filters until the page is full. If it is not, and there are more, `reached`
-- is the last key: the next page begins there. `searched_back_to` is the time of that job, by the order of the list.
-- A page ends early after the job that reaches p_most_bytes, so that large inputs do not fill a process; `page_size` is how many it would
-- have had, and `matched` how many matched, with those before p_offset. The only row of an empty page has no id.
-- History is looked at after that, see history_keys: only tables that can have keys among the p_examined newest are read, and their jobs by the table that has them.
-- Where every job of the lists matches, an offset is counted in keys, and only the jobs of the page itself are read.
-- The plan is made once for all values, and does not depend on statistics: each list is read in the order of its index. The key of all
-- jobs has that order too. With pages that cost nothing the planner compares how many entries are read, and the list of a tenant is the
-- shorter one; otherwise it would prefer the key for its pages, which lie beside each other. Called by engine/jobs/lists/sql/list.sql. SQL, because several partial indexes are read side by side.
create or replace function list_jobs(
  p_lists text[], p_examined int, p_before_at timestamptz, p_before uuid, p_after_at timestamptz, p_after uuid, p_lowest uuid, p_highest uuid,
  p_limit int, p_offset int, p_most_bytes bigint, p_tenant_id uuid, p_statuses text[], p_job_type text, p_source text, p_correlation_id text,
  p_created_after timestamptz, p_created_before timestamptz, p_finished_after timestamptz, p_finished_before timestamptz, p_worker_id text,
  p_host_id uuid, p_parent_run_id uuid, p_group_id uuid, p_error_type text, p_error_text text, p_error_pattern text, p_active_after uuid default '00000000-0000-0000-0000-000000000000'
) returns table (id uuid, at timestamptz, page_size bigint, matched bigint, reached_at timestamptz, reached uuid, searched_back_to timestamptz) language plpgsql stable
set search_path from current set plan_cache_mode = force_generic_plan set jit = off set enable_sort = off set enable_incremental_sort = off
set enable_bitmapscan = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set random_page_cost = 0 set seq_page_cost = 0 as $$
#variable_conflict use_column
declare
  few constant int := p_examined / 128 + 1;
  more constant int := p_examined / 16 + 1;
  related_id constant uuid := coalesce(p_group_id, p_parent_run_id);
  is_exact constant boolean := (p_statuses is null or (p_statuses = '{dead_letter}' and p_lists = '{dead_letter}'))
    and num_nonnulls(p_job_type, p_source, p_created_after, p_created_before, p_finished_after, p_finished_before, p_worker_id, p_host_id,
      p_parent_run_id, p_group_id, p_error_type, p_error_text, p_error_pattern) = 0;
  skipped constant int := case when is_exact then p_offset else 0 end;
  no_id constant uuid := '00000000-0000-0000-0000-000000000000';
  last_id constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  -- One list at most can have jobs in history.
  history_list constant text := (array(
    select l.list from unnest(p_lists) l(list) where l.list in ('key', 'ended', 'failed', 'correlation', 'children', 'group', 'ends')))[1];
  ats timestamptz[];
  ids uuid[];
  parts text[];
  missing constant int := p_limit + p_offset - skipped;
  -- How many jobs are compared next.
  chunk int := missing;
  compared int := skipped;
  found_ats timestamptz[] := '{}';
  found_ids uuid[] := '{}';
  found_parts text[] := '{}';
  newer record;
  reached_created_at timestamptz;
begin
  with recursive
  -- the lists of each tenant that has jobs in it, from one tenant to the next along the index; or of the one that is asked for
  sources as (
    select l.list, coalesce(p_tenant_id, case when l.list not in ('key', 'children', 'active', 'running', 'group') then no_id end) as tenant_id
    from unnest(p_lists) l(list)
    union all
    select s.list, case s.list
      when 'queued' then (
        select j.tenant_id from only jobs j where j.status = 'queued' and j.tenant_id > s.tenant_id order by j.tenant_id, j.id limit 1)
      when 'ended' then (
        select j.tenant_id from only jobs j
        where j.status in ('succeeded', 'failed', 'canceled') and j.tenant_id > s.tenant_id order by j.tenant_id, j.id limit 1)
      when 'ends' then (
        select j.tenant_id from only jobs j
        where j.status in ('failed', 'canceled') and j.tenant_id > s.tenant_id order by j.tenant_id, j.finished_at, j.id limit 1)
      when 'correlation' then (
        select j.tenant_id from only jobs j
        where j.correlation_id = p_correlation_id and j.tenant_id > s.tenant_id order by j.tenant_id, j.id limit 1)
      else (
        select j.tenant_id from only jobs j where is_listed(j, s.list) and j.tenant_id > s.tenant_id order by j.tenant_id, j.id limit 1) end
    from sources s
    where p_tenant_id is null and s.tenant_id is not null
  ),
  first_keys as materialized (
    select s.list, s.tenant_id, k.at, k.id, k.nth
    from sources s
    cross join lateral (
      select k.at, k.id, row_number() over (order by k.at desc, k.id desc) as nth
      from job_keys(s.list, s.tenant_id, p_correlation_id, related_id, p_before_at, p_before, p_after_at, p_after, few, p_active_after) k) k
  ),
  first_bound as materialized (
    select coalesce(max(b.at), p_after_at) as at, coalesce((array_agg(b.id))[1], p_after) as id
    from (select k.at, k.id from first_keys k order by k.at desc, k.id desc offset p_examined - 1 limit 1) b
  ),
  -- of the lists that may have more keys above the bound
  second_keys as materialized (
    select f.list, f.tenant_id, k.at, k.id, k.nth
    from first_keys f
    cross join first_bound b
    cross join lateral (
      select k.at, k.id, row_number() over (order by k.at desc, k.id desc) as nth
      from job_keys(f.list, f.tenant_id, p_correlation_id, related_id, f.at, f.id, b.at, b.id, more, p_active_after) k) k
    where f.nth = few and (f.at, f.id) > (b.at, b.id)
  ),
  second_bound as materialized (
    select coalesce(max(b.at), p_after_at) as at, coalesce((array_agg(b.id))[1], p_after) as id
    from (
      select k.at, k.id from (select k.at, k.id from first_keys k union all select k.at, k.id from second_keys k) k
      order by k.at desc, k.id desc offset p_examined - 1 limit 1) b
  ),
  all_keys as materialized (
    select k.at, k.id from first_keys k
    union all
    select k.at, k.id from second_keys k
    union all
    select k.at, k.id
    from second_keys f
    cross join second_bound b
    cross join lateral job_keys(f.list, f.tenant_id, p_correlation_id, related_id, f.at, f.id, b.at, b.id, p_examined, p_active_after) k
    where f.nth = more and (f.at, f.id) > (b.at, b.id)
  ),
  examined as materialized (
    select k.at, k.id from all_keys k order by k.at desc, k.id desc limit p_examined
  )
  select coalesce(array_agg(k.at order by k.at desc, k.id desc), '{}'), coalesce(array_agg(k.id order by k.at desc, k.id desc), '{}'),
    array_fill(null::text, array[count(*)::int])
  into ats, ids, parts from examined k;

  if history_list is not null and exists (select from pg_inherits i where i.inhparent = 'jobs'::regclass) then
    select coalesce(array_agg(k.at order by k.at desc, k.id desc), '{}'), coalesce(array_agg(k.id order by k.at desc, k.id desc), '{}'),
      coalesce(array_agg(k.part order by k.at desc, k.id desc), '{}')
    into ats, ids, parts
    from (
      select k.at, k.id, k.part
      from (
        select k.at, k.id, k.part from unnest(ats, ids, parts) k(at, id, part)
        union all
        select k.at, k.id, k.part
        from history_keys(history_list, p_tenant_id, p_correlation_id, related_id, p_before_at, p_before, coalesce(ats[p_examined], p_after_at),
          coalesce(ids[p_examined], p_after), p_examined) k) k
      order by k.at desc, k.id desc limit p_examined) k;
  end if;

  -- Some at a time, the newest first, until the page is full.
  while compared < cardinality(ids) and cardinality(found_ids) < missing loop
    with keys as materialized (
      select k.at, k.id, k.part
      from unnest(ats[compared + 1:compared + chunk], ids[compared + 1:compared + chunk], parts[compared + 1:compared + chunk]) k(at, id, part)
    ),
    matching as materialized (
      select k.at, k.id, k.part
      from keys k
      cross join lateral (
        select from only jobs j
        where j.id = k.id
          and (p_tenant_id is null or j.tenant_id = p_tenant_id)
          and (p_statuses is null or shown_status(j) = any (p_statuses))
          and (p_correlation_id is null or j.correlation_id = p_correlation_id)
          and (p_parent_run_id is null or j.parent_run_id = p_parent_run_id)
          and (p_group_id is null or j.group_id = p_group_id)
          and j.id between p_lowest and p_highest
          and job_matches(j, p_job_type, p_source, p_created_after, p_created_before, p_finished_after, p_finished_before, p_worker_id,
            p_host_id, p_error_type, p_error_text, p_error_pattern)
        offset 0) j
      where k.part is null
      union all
      select case when history_list = 'ends' then j.finished_at else 'infinity' end, j.id, j.part
      from (select array_agg(k.part) as parts, array_agg(k.id) as ids from keys k where k.part is not null) h
      cross join lateral history_jobs(h.parts, h.ids, false, p_tenant_id, p_statuses, p_correlation_id, p_parent_run_id, p_group_id, p_lowest, p_highest,
        p_job_type, p_source, p_created_after, p_created_before, p_finished_after, p_finished_before, p_worker_id, p_host_id,
        p_error_type, p_error_text, p_error_pattern) j
      where h.ids is not null
    )
    select coalesce(array_agg(m.at order by m.at desc, m.id desc), '{}') as ats, coalesce(array_agg(m.id order by m.at desc, m.id desc), '{}') as ids,
      coalesce(array_agg(m.part order by m.at desc, m.id desc), '{}') as parts
    into newer
    from (select m.at, m.id, m.part from matching m order by m.at desc, m.id desc limit missing - cardinality(found_ids)) m;
    found_ats := found_ats || newer.ats;
    found_ids := found_ids || newer.ids;
    found_parts := found_parts || newer.parts;
    compared := compared + chunk;
    chunk := chunk * 4;
  end loop;

  if ats[p_examined] = 'infinity' then
    reached_created_at := case when parts[p_examined] is null
      then (select j.created_at from only jobs j where j.id = ids[p_examined])
      else (select j.created_at from history_jobs(parts[p_examined:p_examined], ids[p_examined:p_examined], false, p_tenant_id, null, null, null, null,
        no_id, last_id, null, null, null, null, null, null, null, null, null, null, null) j) end;
  end if;

  return query
  with found as materialized (
    select f.at, f.id, f.part, f.n from unnest(found_ats, found_ids, found_parts) with ordinality f(at, id, part, n) where f.n > p_offset - skipped
  ),
  -- measured for the page alone: it takes longer than all comparisons
  history_sizes as materialized (
    select j.id, j.bytes
    from (select array_agg(f.part) as parts, array_agg(f.id) as ids from found f where f.part is not null and p_most_bytes is not null) h
    cross join lateral history_jobs(h.parts, h.ids, true, p_tenant_id, null, null, null, null, no_id, last_id,
      null, null, null, null, null, null, null, null, null, null, null) j
    where h.ids is not null
  ),
  page as (
    select f.at, f.id, f.n, count(*) over () as page_size, sum(s.bytes) over (order by f.n rows between unbounded preceding and 1 preceding) as bytes_before
    from found f
    cross join lateral (
      select case when p_most_bytes is null then null when f.part is not null then (select h.bytes from history_sizes h where h.id = f.id)
      else (
        -- As they are stored, unless compressed: then they may be a hundred times as large.
        select case when pg_column_compression(j.input) is null then pg_column_size(j.input) else octet_length(j.input::text) end
          + case when pg_column_compression(j.output) is null then pg_column_size(j.output) else octet_length(j.output::text) end
          + case when pg_column_compression(j.error) is null then pg_column_size(j.error) else octet_length(j.error::text) end
        from only jobs j
        where j.id = f.id) end as bytes
      offset 0) s
  )
  select p.id, p.at, p.page_size, cardinality(found_ids)::bigint + least(skipped, cardinality(ids)), ats[p_examined], ids[p_examined],
    case when ats[p_examined] < 'infinity' then ats[p_examined] else reached_created_at end
  from (values (1)) one
  left join page p on p.bytes_before is null or p.bytes_before < p_most_bytes
  order by p.n;
end $$;
