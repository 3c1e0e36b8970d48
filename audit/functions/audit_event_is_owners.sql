-- Refuses events of the log itself to all roles but the owner's: removals, epochs, keys and erasures are written by the owner's functions, which
-- check them, and verification relies on them. Its trigger calls it for these events alone, so that other rows cost nothing.
-- It does not run in replica mode: rows that are replicated were checked where they were written.
create or replace function audit_event_is_owners() returns trigger language plpgsql
set search_path from current as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return new;
  end if;
  raise exception 'this row is not one that % takes from %', tg_table_name, current_user
    using errcode = 'insufficient_privilege', hint = tg_argv[0];
end $$;

select secure_trigger('audit_log', 'audit_log_own_events', $trigger$before insert on audit_log for each row
  when (new.action in ('AUDIT_PRUNED', 'AUDIT_EPOCH', 'AUDIT_KEY', 'ERASED'))
  execute function audit_event_is_owners('Functions of the owner write the events of the log itself.')$trigger$);
