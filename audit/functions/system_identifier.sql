-- Which cluster this is; zero where a provider keeps that from everyone. Transaction ids that go back are noticed anyway.
create or replace function system_identifier() returns bigint language plpgsql stable
set search_path from current as $$
begin
  if has_function_privilege('pg_control_system()', 'execute') then
    return (select system_identifier from pg_control_system());
  end if;
  return 0;
end $$;

insert into audit_epoch (epoch, system_identifier)
select 1, system_identifier() where not exists (select from audit_epoch);
