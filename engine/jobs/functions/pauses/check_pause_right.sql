-- Raises unless whoever asks may pause and resume this: a tenant's request may do so with itself and with its own workflows, hosts and
-- triggers. A tenant that moves to another installation stays paused as it is. Called by pause_target and resume_target.
create or replace function check_pause_right(p_kind text, p_tenant uuid) returns void language plpgsql stable
set search_path from current as $$
begin
  if current_setting('role') = current_schema() || '_tenant'
     and (p_kind in ('type', 'definition') or p_tenant is distinct from nullif(current_setting('atlas.tenant', true), '')::uuid) then
    raise exception 'a tenant may not pause the % of others', p_kind using errcode = 'insufficient_privilege';
  end if;
  if p_kind = 'tenant' then
    perform refuse_moving(p_tenant);
  end if;
end $$;
