-- What is paused now: job types and command definitions, tenants, and whether any workflow is. Called by claim_with_limits and claim_leased.
create or replace function paused_now(out types text[], out tenants uuid[], out has_workflows boolean) language plpgsql stable
set search_path from current as $$
begin
  select coalesce(array_agg(p.target) filter (where p.kind in ('type', 'definition')), '{}'),
    coalesce(array_agg(p.tenant_id) filter (where p.kind = 'tenant'), '{}'), coalesce(bool_or(p.kind = 'workflow'), false)
  into types, tenants, has_workflows
  from pauses p where p.until is null or p.until > clock_timestamp();
end $$;
