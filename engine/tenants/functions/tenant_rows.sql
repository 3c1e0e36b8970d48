-- The rows of a table that move with a tenant, as JSON on one line each: a line break in JSON is a space between its parts. The row of the
-- tenant itself is a table of one. Called by engine/tenants/move_export.py.
create or replace function tenant_rows(p_tenant uuid, p_table text) returns setof text language plpgsql stable
set search_path from current set timezone = 'UTC' set bytea_output = 'hex' as $$
declare
  is_by_job boolean;
begin
  if p_table = 'tenants' then
    -- It moves no more where it arrives.
    return query select (to_jsonb(t) || '{"moving_at": null, "moving_to": null}')::text from tenants t where t.id = p_tenant;
  elsif p_table = 'audit_private' then
    return query select row_to_json(t)::text from audit_private t where t.tenant_id = p_tenant;
  elsif p_table = 'pauses' then
    -- Where it arrives, it is paused anew.
    return query select row_to_json(t)::text from pauses t where t.tenant_id = p_tenant and t.kind <> 'tenant';
  else
    select t.is_by_job into strict is_by_job from tenant_tables() t where t.name = p_table;
    return query execute format(case when is_by_job
      then 'select replace(row_to_json(t)::text, E''\n'', '' '') from %I t join jobs j on j.id = t.job_id where j.tenant_id = $1'
      else 'select replace(row_to_json(t)::text, E''\n'', '' '') from %I t where t.tenant_id = $1' end, p_table) using p_tenant;
  end if;
end $$;
