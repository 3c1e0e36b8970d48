-- Where the ready jobs of these types begin: by type, tenant and priority, when the oldest was created. Walks from place to place along the index,
-- from the place after this one, until this time, but to one place at least. While a transaction holds the xmin horizon it also walks over the
-- entries of all jobs that were claimed since, which takes long. So a worker asks seldom, beside its claims, and for a part at a time. Looks across
-- tenants: a worker serves them all. Called by find_places.
create or replace function ready_places(p_types text[], p_type text, p_tenant uuid, p_priority int, p_until timestamptz)
returns table (job_type text, tenant_id uuid, priority int, created_at timestamptz)
language sql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off as $$
  with recursive walk as (
    select p_type as job_type, p_tenant as tenant_id, p_priority as priority, null::timestamptz as created_at
    union all
    select n.* from walk w
    cross join lateral (
      select * from (
        (select j.job_type, j.tenant_id, j.priority, j.created_at from only jobs j
         where is_ready(j)
           and j.job_type = w.job_type and j.tenant_id = w.tenant_id and j.priority < w.priority
         order by j.priority desc, j.created_at limit 1)
        union all
        (select j.job_type, j.tenant_id, j.priority, j.created_at from only jobs j
         where is_ready(j)
           and j.job_type = w.job_type and j.tenant_id > w.tenant_id
         order by j.tenant_id, j.priority desc, j.created_at limit 1)
        union all
        (select j.job_type, j.tenant_id, j.priority, j.created_at from only jobs j
         where is_ready(j)
           and p_types is null and j.job_type > w.job_type
         order by j.job_type, j.tenant_id, j.priority desc, j.created_at limit 1)
        union all
        (select f.* from (select t from unnest(p_types) t where t > w.job_type order by t) y
         cross join lateral (
           select j.job_type, j.tenant_id, j.priority, j.created_at from only jobs j
           where is_ready(j) and j.job_type = y.t
           order by j.tenant_id, j.priority desc, j.created_at limit 1) f
         limit 1)) o
      limit 1) n
    where w.created_at is null or clock_timestamp() < p_until)
  select * from walk w where w.created_at is not null
$$;
