-- Raises AT421 if a tenant moves to another installation: the detail is its short name, the hint where it is then, if that was said.
-- Called by enqueue, enqueue_many, publish_event and check_pause_right where they refuse something of a tenant.
create or replace function refuse_moving(p_tenant uuid) returns void language plpgsql stable
set search_path from current as $$
declare
  moving record;
begin
  select t.slug, coalesce(t.moving_to, '') as moving_to into moving from tenants t where t.id = p_tenant and t.moving_at is not null;
  if found then
    raise exception 'the tenant % moves to another installation', moving.slug
      using errcode = 'AT421', detail = moving.slug, hint = moving.moving_to;
  end if;
end $$;
