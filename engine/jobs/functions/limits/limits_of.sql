-- The limits of new jobs, in their order: of its type and key, and the rate of its tenant. A tenant, a type or a key that all share is passed
-- as an array of one, as to enqueue_many, which calls it. Runs of workflows are not counted by the rate of a tenant; the jobs of
-- their steps are. p_rated: the tenants that have a rate.
create or replace function limits_of(p_tenant uuid[], p_type text[], p_input jsonb[], p_limit_by text[], p_rated uuid[])
returns table (n int, id uuid, key text, rate uuid) language plpgsql stable
set search_path from current set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
  select j.n, case when b.limit_by is not null then md5(concat_ws(E'\x1f', j.job_type, case when f.key is not null then j.tenant_id end, f.key))::uuid end,
    f.key, case when j.tenant_id = any (p_rated) and j.job_type <> 'ENGINE_RUN' then j.tenant_id end
  from (
    select s.n, case when cardinality(p_tenant) = 1 then p_tenant[1] else p_tenant[s.n] end as tenant_id,
      case when cardinality(p_type) = 1 then p_type[1] else p_type[s.n] end as job_type,
      case when cardinality(p_type) = 1 then p_limit_by[1] else p_limit_by[s.n] end as known, i.input
    from unnest(p_input) with ordinality i(input, nth)
    cross join lateral (select i.nth::int as n) s) j
  cross join lateral (
    select coalesce(j.known, (
      select coalesce(y.concurrency_key, '') from job_types y
      where y.key = j.job_type and (y.concurrency_key is not null or y.rate is not null))) as limit_by) b
  cross join lateral (select case when b.limit_by <> '' then limit_key(b.limit_by, j.input, j.job_type) end as key) f;
end $$;
