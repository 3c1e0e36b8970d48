-- Begins the next epoch in this cluster. Changing the default waits for every writer and holds off new ones meanwhile, so that no
-- row of the old epoch can appear afterwards; the sealer then seals what was left of it. That is found from the epoch's last
-- seal, so an epoch that has begun here and has no seal yet cannot be ended: its rows would never be sealed. The event names how many
-- checkpoints the epoch had and the largest, so that verification finds them deleted.
-- Locks: seal. Called by audit/retention.py.
create or replace function audit_new_epoch(
  p_reason text, p_actor_type text, p_actor_id text, p_meta jsonb
) returns int language plpgsql security definer
set search_path from current as $$
declare
  begun int;
  facts jsonb;
begin
  perform pg_advisory_xact_lock(lock_class('seal'), 0);
  select max(epoch) + 1 into begun from audit_epoch;
  if exists (
    select from audit_epoch e
    where e.epoch = begun - 1 and e.epoch > 1 and e.system_identifier = system_identifier()
      and not exists (select from audit_seal s where s.epoch = e.epoch)
  ) then
    raise exception 'epoch % has begun and is not sealed yet', begun - 1 using errcode = 'object_not_in_prerequisite_state';
  end if;
  execute format('alter table audit_log alter column epoch set default %s', begun);
  insert into audit_epoch (epoch, system_identifier, reason) values (begun, system_identifier(), p_reason);
  select p_meta || jsonb_build_object('epoch', begun) || case when count(*) = 0 then '{}' else
    jsonb_build_object('ended', jsonb_build_object('checkpoints', count(*), 'size', max(c.size))) end
  into facts
  from audit_checkpoint c where c.epoch = begun - 1;
  perform record_event(null, p_actor_type, p_actor_id, 'warn', 'AUDIT_EPOCH', 'audit_epoch', begun::text, p_reason, facts);
  return begun;
end $$;
