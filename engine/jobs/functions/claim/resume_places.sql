-- The places of p_resume as arrays: types, tenants, priorities, and since when to look. A place without
-- a priority is all of a tenant and type. Of these types (null: of all), but for what is paused. Called by pick_ready.
create or replace function resume_places(
  p_resume jsonb, p_types text[], p_paused_types text[], p_paused_tenants uuid[], out types text[], out tenants uuid[], out priorities int[], out since timestamptz[],
  out tenant_count int
) language plpgsql immutable
set search_path from current as $$
#variable_conflict use_column
begin
  with places as (
    select e->>0 as job_type, (e->>1)::uuid as tenant_id, (e->>2)::int as priority, to_timestamp(min((e->>3)::float8)) as since
    from jsonb_array_elements(p_resume->'places') e
    group by 1, 2, 3),
  served as (
    select p.*, bool_or(p.priority is null) over (partition by p.job_type, p.tenant_id) as has_all
    from places p where (p_types is null or p.job_type = any (p_types)) 
      and p.job_type <> all (p_paused_types) and p.tenant_id <> all (p_paused_tenants))
  select coalesce(array_agg(s.job_type order by s.tenant_id), '{}'), coalesce(array_agg(s.tenant_id order by s.tenant_id), '{}'),
    coalesce(array_agg(s.priority order by s.tenant_id), '{}'), coalesce(array_agg(s.since order by s.tenant_id), '{}'),
    count(distinct s.tenant_id)::int
  into types, tenants, priorities, since, tenant_count
  from served s where s.priority is null or not s.has_all;
end $$;
