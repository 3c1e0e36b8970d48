-- Deletes the rows of every seal up to p_through, with their personal values. Their leaf hashes stay, so that the tree, old
-- proofs and later verification hold. Erasures of callers' addresses in the last 30 days of the rows are recorded again. The order is
-- an audit row of its own, and a row of audit_pruned that the append-only trigger asks for. Called by audit/retention.py.
create or replace function audit_prune(
  p_through bigint, p_actor_type text, p_actor_id text, p_meta jsonb
) returns bigint language plpgsql security definer
set search_path from current as $$
declare
  seal audit_seal;
  boundary bigint;
  facts jsonb;
  words text;
  gone bigint;
  keys jsonb;
begin
  select * into seal from audit_seal where n = p_through and closes;
  if not found then
    raise exception 'seal % does not exist or does not close its window', p_through using errcode = 'no_data_found';
  end if;
  if not exists (select from audit_checkpoint where size >= seal.size) then
    raise exception 'seal % is not covered by a checkpoint yet', p_through using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- Rows above it were written in a restored cluster and belong to the end of the epoch, whatever their xid says.
  select max_id into boundary from audit_seal where epoch = seal.epoch and not rest order by n desc limit 1;
  -- The history of keys goes on in the event of the order: which key signed each epoch, signed by the key before it, what was lost, and how many
  -- checkpoints it had.
  select jsonb_agg(distinct k.named) into keys
  from (
    select jsonb_strip_nulls(jsonb_build_object('epoch', a.meta->'epoch', 'key', a.meta->'key', 'handover', a.meta->'handover',
      'lost', a.meta->'lost', 'ended', a.meta->'ended')) as named
    from audit_epoch e
    cross join lateral key_events(e.epoch) a
    union all
    select named
    from audit_pruned p
    join audit_log a on a.entity_id = p.through_seal::text and a.entity_type = 'audit_seal' and a.action = 'AUDIT_PRUNED'
      and a.tenant_id is null
    cross join lateral jsonb_array_elements(a.meta->'keys') named) k;
  insert into audit_pruned (through_seal) values (p_through);
  with removed as (
    delete from audit_log a
    where a.epoch < seal.epoch
       or (a.epoch = seal.epoch and seal.rest)
       or (a.epoch = seal.epoch and a.xid < pg_snapshot_xmax(seal.snap_cur) and pg_visible_in_snapshot(a.xid, seal.snap_cur)
           and a.id <= boundary)
    returning a.tenant_id, a.created_at, a.action, a.entity_type, a.entity_id, a.meta),
  commitments as (
    select r.entity_id, decode(c #>> '{}', 'hex') as commitment
    from removed r, jsonb_path_query(r.meta, '$.**.commitment') c
    where case when c #>> '{}' ~ '^[0-9a-f]{64}$' then true else false end),
  forgotten as (
    delete from audit_private p using commitments c where p.entity_id = c.entity_id and p.commitment = c.commitment),
  forgotten_loose as (
    delete from audit_private p using commitments c where p.entity_id is null and p.field <> 'ip' and p.commitment = c.commitment),
  -- The events of a caller share the commitment of its address, for an hour, and those of a bulk action until its end.
  forgotten_addresses as (
    delete from audit_private p
    where p.entity_id is null and p.field = 'ip' and p.created_at < seal.snap_at - interval '30 days'),
  -- So rows that stay may commit to an address that was erased: verification must find that someone erased it.
  erasures as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
    select r.tenant_id, p_actor_type::actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', m.message, r.meta,
      audit_body(r.tenant_id, p_actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', m.message, r.meta)
    from removed r
    cross join lateral (select format('%s personal values were erased at %s', r.meta->>'values', r.created_at) as message) m
    where r.action = 'ERASED' and r.entity_type = 'audit_private' and r.meta->'fields' ? 'ip'
      and r.created_at > seal.snap_at - interval '30 days')
  select count(*) into gone from removed;
  words := gone || ' rows of the seals up to ' || p_through || ' were removed';
  facts := p_meta || jsonb_build_object('through_seal', p_through, 'rows', gone, 'size', seal.size, 'root', encode(seal.root, 'hex'),
    'keys', coalesce(keys, '[]'));
  perform record_event(null, p_actor_type, p_actor_id, 'warn', 'AUDIT_PRUNED', 'audit_seal', p_through::text, words, facts);
  return gone;
end $$;
