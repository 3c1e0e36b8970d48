-- Refuses to roles other than the owner's a checkpoint that is not one of the tree: its note names the size and root of a seal of its epoch, its
-- columns say what the note says, and its signature names the key that an event names for the epoch, or that has signed it. Whether the signature
-- is valid is for the holders of the public key to say. Its trigger calls it.
create or replace function audit_checkpoint_is_checked() returns trigger language plpgsql
set search_path from current as $$
declare
  seal audit_seal;
  lines constant text[] := string_to_array(new.note, E'\n');
  log_name constant text := split_part(new.key_name, '+', 1);
  signature constant text[] := regexp_match(new.note, '\n\n— ([^ \n]+) ([A-Za-z0-9+/]{91}=)\n$');
  named constant text := (select k.meta->>'key' from key_events(new.epoch) k limit 1);
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return new;
  end if;
  select * into seal from audit_seal s where s.size = new.size;
  if seal.n is null or seal.epoch <> new.epoch
     or (lines[1], lines[2], lines[3]) is distinct from (log_name, new.size::text, encode(seal.root, 'base64'))
     or lines[4] !~ '^time ' or substr(lines[4], 6)::timestamptz <> new.signed_at
     or signature is null or signature[1] <> log_name
     or new.key_name <> log_name || '+' || encode(substring(decode(signature[2], 'base64') for 4), 'hex')
     or not starts_with(coalesce(named, new.key_name || '+'), new.key_name || '+')
     or (named is null and exists (select from audit_checkpoint c where c.epoch = new.epoch and c.key_name <> new.key_name))
  then
    raise exception 'a checkpoint of % leaves that is not one of this tree', new.size using errcode = 'insufficient_privilege',
      hint = 'The signer stores checkpoints of seals, by the key of their epoch.';
  end if;
  return new;
exception
  when data_exception then
    raise exception 'a checkpoint of % leaves that cannot be read', new.size using errcode = 'insufficient_privilege';
end $$;

select secure_trigger('audit_checkpoint', 'audit_checkpoint_checked', $trigger$before insert on audit_checkpoint for each row
  execute function audit_checkpoint_is_checked()$trigger$);
