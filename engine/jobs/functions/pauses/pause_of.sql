-- The pause that holds a job, as JSON: the oldest of those of its type, tenant, host and workflow. Null where none does.
-- Called by engine/jobs/explain/sql/explain.sql.
create or replace function pause_of(p_job_type text, p_tenant uuid, p_host uuid, p_input jsonb) returns jsonb language sql stable
set search_path from current as $$
  select jsonb_build_object('id', p.id, 'kind', p.kind, 'name', coalesce(h.name, case p.kind when 'tenant' then n.slug end, p.target),
    'tenant', case p.kind when 'workflow' then n.slug end, 'reason', p.reason, 'by', p.paused_by, 'since', p.paused_at, 'until', p.until)
  from pauses p
  left join tenants n on n.id = p.tenant_id
  left join hosts h on p.kind = 'host' and h.id = p_host
  where (p.until is null or p.until > clock_timestamp())
    and case p.kind
      when 'tenant' then p.tenant_id = p_tenant
      when 'host' then p.target = p_host::text
      when 'workflow' then p_job_type = 'ENGINE_RUN' and p.target = p_input->>'workflow'
        and (p.tenant_id is null or p.tenant_id = p_tenant)
      when 'trigger' then false
      else p.target = p_job_type end
  order by p.paused_at limit 1
$$;
