-- Refuses to roles other than the owner's what only the owner's functions write, or no one: events of the log itself (removals, archives,
-- epochs, keys, erasures), and bytes that are not the JSON of the columns. Verification relies on these. Names of actors: audit_actor_is_known. The trigger
-- calls it for such rows alone. The bytes of job events must be JSON, and are not compared with the columns: each job would pay for
-- that (11 us a row; JSON costs 1), and verification compares them. Functions that run as the owner take the action of a job's event from their caller, so
-- there the role that acts decides.
-- It does not run in replica mode: rows that are replicated were checked where they were written.
create or replace function audit_event_is_owners() returns trigger language plpgsql
set search_path from current as $$
declare
  acting constant name := case when new.entity_type <> 'job' then current_user
    when current_setting('role') = 'none' then session_user else current_setting('role')::name end;
begin
  if pg_has_role(acting, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return new;
  end if;
  raise exception 'this row is not one that % takes from %', tg_table_name, acting
    using errcode = 'insufficient_privilege', hint = tg_argv[0];
end $$;

select secure_trigger('audit_log', 'audit_log_own_events', $trigger$before insert on audit_log for each row
  when (new.action in ('AUDIT_PRUNED', 'AUDIT_ARCHIVED', 'AUDIT_EPOCH', 'AUDIT_KEY', 'ERASED')
    or case when new.entity_type = 'job' then get_byte(new.body, 0) <> ascii('{') or convert_from(new.body, 'UTF8')::json is null
            else convert_from(new.body, 'UTF8')::jsonb is distinct from jsonb_build_object(
              'tenant_id', new.tenant_id, 'actor_type', new.actor_type, 'actor_id', new.actor_id, 'level', new.level, 'action', new.action,
              'entity_type', new.entity_type, 'entity_id', new.entity_id, 'message', new.message, 'meta', new.meta) end)
  execute function audit_event_is_owners('Functions of the owner write the events of the log itself, and the bytes of an event are the JSON of its columns.')$trigger$);
