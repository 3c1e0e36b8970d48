-- Refuses a job that the login of another application was not granted: errcode AT403. The answer is the same for a tenant or a type that
-- does not exist. Runs as the owner of the tables, within enqueue, which calls it.
create or replace function check_enqueue_grant(p_tenant text, p_type text) returns void language plpgsql stable
set search_path from current as $$
declare
  granted text[];
begin
  select array_agg(g.job_type order by g.job_type) into granted
  from tenants t
  join enqueue_grants g on g.tenant_id = t.id and g.login = session_user
  where t.slug = p_tenant or t.id::text = p_tenant;
  if not exists (
    select from unnest(granted) g(job_type)
    where g.job_type = p_type or (right(g.job_type, 1) = '*' and starts_with(p_type, left(g.job_type, -1)))
  ) then
    raise exception 'the login % may not enqueue % for the tenant %', session_user, p_type, p_tenant
      using errcode = 'AT403',
        detail = coalesce('For this tenant it may enqueue ' || array_to_string(granted, ', ') || '.', ''),
        hint = format('Run `atlas grant enqueue %s --tenant %s --type %s`.', session_user, p_tenant, p_type);
  end if;
end $$;
