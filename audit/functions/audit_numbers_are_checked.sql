-- Refuses to roles other than the owner's running numbers that do not continue those of their tenant, or are of no seal or more than its rows.
-- A seal is refused without all of its numbers, so none can be added to it later. Its trigger calls it after the statement that adds them.
create or replace function audit_numbers_are_checked() returns trigger language plpgsql
set search_path from current as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return null;
  end if;
  if exists (
    select from added a
    where not exists (select from audit_seal s where s.n = a.n)
      or a.first_number <> 1 + coalesce((
        select t.first_number + t.count - 1 from audit_seal_tenant t where t.tenant_id = a.tenant_id and t.n < a.n order by t.n desc limit 1), 0)
  ) or exists (
    select from audit_seal s
    where s.n in (select a.n from added a)
      and s.count - 1 < (select sum(t.count) from audit_seal_tenant t where t.n = s.n)
  ) then
    raise exception 'these running numbers are not those that the sealer gives' using errcode = 'insufficient_privilege';
  end if;
  return null;
end $$;

select secure_trigger('audit_seal_tenant', 'audit_seal_tenant_checked', $trigger$after insert on audit_seal_tenant
  referencing new table as added for each statement execute function audit_numbers_are_checked()$trigger$);
