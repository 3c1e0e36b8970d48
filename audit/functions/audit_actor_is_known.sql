-- Refuses events in the name of an actor that the database knows to be another, to all but the login of the owner; within functions that run as the owner too:
-- no one; the signer, but for the event of its key; `db:LOGIN` of a login other than the session's. In events that are not a job's also: a token that is not there or is another
-- subject's, a worker or an inbound hook that is not there. (Engines, `engine:host:pid:uuid`, are not registered.) A refused call is recorded up to a minute later, when its token may be gone.
-- The trigger calls it for such rows alone. Events of jobs are checked for less, since every job would pay for reading another table.
-- It runs as the owner, since a tenant sees no credentials of others. It does not run in replica mode.
create or replace function audit_actor_is_known() returns trigger language plpgsql security definer
set search_path from current as $$
declare
  -- who acts: a function that runs as its owner does not change the setting
  acting constant name := case current_setting('role') when 'none' then session_user else current_setting('role')::name end;
  wrong text;
begin
  if pg_has_role(acting, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return new;
  end if;
  wrong := case
    when new.actor_id = '' then 'it has no name'
    when new.actor_type = 'system' and new.actor_id = 'signer' and new.action <> 'AUDIT_KEY' then 'the signer writes no such event'
    when new.actor_id ^@ 'db:' and new.actor_id <> 'db:' || session_user then format('the login of this session is %s', session_user)
    when new.entity_type = 'job' then null
    when new.meta ? 'token' and new.action <> 'CALLS_REFUSED'
      and not exists (select from api_tokens t where t.prefix = new.meta->>'token' and t.subject = new.actor_id)
      then format('it has no token %s', new.meta->>'token')
    when new.actor_type = 'system' and new.actor_id ^@ 'hook:' and not exists (select from inbound_hooks h where 'hook:' || h.id = new.actor_id)
      then 'there is no such inbound hook'
    when new.actor_type = 'system' and new.actor_id ~ '^[^:]+:[0-9]+:[0-9a-f-]{36}$' and not exists (select from job_workers w where w.worker_id = new.actor_id)
      then 'there is no such worker' end;
  if wrong is not null then
    raise exception '% may not write an event in the name of %: %', acting, quote_literal(left(new.actor_id, 200)), wrong
      using errcode = 'insufficient_privilege', hint = 'Write an event in the name of the login that makes the change.';
  end if;
  return new;
end $$;

select secure_trigger('audit_log', 'audit_log_actor', $trigger$before insert on audit_log for each row
  when (new.actor_id = '' or (new.actor_id ^@ 'db:' and new.actor_id <> 'db:' || session_user)
    or (new.actor_type = 'system' and new.actor_id = 'signer')
    or (new.entity_type <> 'job' and (new.meta ? 'token' or (new.actor_type = 'system' and position(':' in new.actor_id) > 0))))
  execute function audit_actor_is_known()$trigger$);
