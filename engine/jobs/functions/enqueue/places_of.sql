-- The tenants, types and priorities of new jobs for a notification, one in a line and a line before them; an empty text if they are many. A tenant or a type that
-- all share is an array of one. Called by enqueue_many.
create or replace function places_of(p_tenant uuid[], p_type text[], p_priority int[]) returns text language plpgsql immutable parallel safe
set search_path from current set plan_cache_mode = force_generic_plan as $$
begin
  return coalesce((
    select case when count(*) <= 64 and sum(length(p.place)) < 7000 then string_agg(E'\n' || p.place, '') end
    from (
      select d.tenant_id || coalesce('/' || nullif(d.priority, 0), '') || ' ' || d.job_type as place
      from (
        select distinct coalesce(u.tenant_id, p_tenant[1]) as tenant_id, coalesce(u.job_type, p_type[1]) as job_type, u.priority
        from unnest(p_tenant, p_type, p_priority) u(tenant_id, job_type, priority)
        limit 65) d) p), '');
end $$;
