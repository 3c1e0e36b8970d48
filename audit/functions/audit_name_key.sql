-- Names the key that signs the newest epoch, in an event, unless one names it already: the signer calls it before it signs. An epoch that
-- begins with `atlas audit new-epoch` names its key itself. Nothing is written for another key than the one that has signed the epoch, nor in a
-- cluster that the epoch does not belong to. Returns whether it wrote the event.
-- Locks: seal. Called by audit/sealing/sealer.py.
create or replace function audit_name_key(p_key text) returns boolean language plpgsql security definer
set search_path from current as $$
declare
  label constant text := substring(p_key from '^([^+\s]{1,100}\+[0-9a-f]{8})\+[A-Za-z0-9+/]{44}$');
  newest int;
  facts jsonb;
begin
  if label is null or split_part(label, '+', 2) <> encode(substring(sha256(
       convert_to(split_part(label, '+', 1) || chr(10), 'UTF8') || decode(right(p_key, 44), 'base64')) for 4), 'hex') then
    raise exception '% is not a public key of the form name+id+base64', p_key using errcode = 'invalid_parameter_value';
  end if;
  select e.epoch into newest from audit_epoch e order by e.epoch desc limit 1;
  if exists (select from key_events(newest)) then
    return false;
  end if;
  perform pg_advisory_xact_lock(lock_class('seal'), 0);
  if exists (select from key_events(newest))
     or not exists (select from audit_epoch e where e.epoch = newest and e.system_identifier = system_identifier())
     or exists (select from audit_epoch e where e.epoch > newest)
     or exists (select from audit_checkpoint c where c.epoch = newest and c.key_name <> label) then
    return false;
  end if;
  facts := jsonb_build_object('epoch', newest, 'key', p_key);
  perform record_event(null, 'system', 'signer', 'info', 'AUDIT_KEY', 'audit_epoch', newest::text, 'The key that signs this epoch', facts);
  return true;
end $$;
