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
        -- A hint that names a grant which is refused in turn would help no one.
        hint = case
          when p_tenant in ('system', '00000000-0000-7000-8000-000000000001') then 'The tenant system is Atlas''s own: name a tenant of the application.'
          when p_type in ('SERVER_START', 'SERVER_STOP', 'SERVER_RESTART', 'ENGINE_RUN', 'HTTP_CALL')
            then 'No login of another application may enqueue this type: enqueue it over the API or with NewJob in Python.'
          else format('Run `atlas grant enqueue %s --tenant %s --type %s`.', session_user, p_tenant, p_type) end;
  end if;
end $$;
