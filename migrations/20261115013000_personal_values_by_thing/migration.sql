-- Personal values are found through the thing that they belong to, the entity of their event. A key on commitments costs
-- a mail a third of its time at the database, since commitments are random: each goes to another page of the index.

alter table audit_private drop constraint audit_private_pkey;
alter table audit_private alter column commitment set not null;
-- Values of no thing are few.
create unique index audit_private_loose on audit_private (commitment) where entity_id is null;
-- Without a key, a logical copy knows a deleted value by the whole of it.
alter table audit_private replica identity full;

-- A value that was given another thing than its event's could be found by its commitment until now; it becomes one of no
-- thing, which still can. Values are never changed otherwise, so the trigger that sees to it stands aside for this once.
alter table audit_private disable trigger audit_private_no_update;
update audit_private p
set entity_id = null
where p.entity_id is not null
  and not exists (
    select from audit_log a
    where a.entity_id = p.entity_id
      and position(convert_to(encode(p.commitment, 'hex'), 'UTF8') in a.body) > 0);
alter table audit_private enable always trigger audit_private_no_update;

comment on function atlas_audit_private(uuid, jsonb) is
  'Keeps personal values of one tenant, in the transaction that writes the event which commits to them. entity_id is that '
  'event''s own, or null: under another one a value is not found again, and verification reports it.';

-- Removes a person's values: those equal to p_subject, and the free texts (fields p_texts) of the same things.
-- One event for each tenant and each thousand values tells which commitments no longer have a value.
create or replace function atlas_audit_erase(
  p_subject text, p_tenant uuid, p_texts text[], p_actor_type text, p_actor_id text, p_meta jsonb
) returns int language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  gone int;
begin
  with theirs as (
    select ctid, tenant_id, entity_id from audit_private
    where lower(value) = lower(p_subject) and field <> 'subject' and (p_tenant is null or tenant_id = p_tenant)),
  erased as (
    -- A value is never changed, so its place is its name for as long as this statement runs.
    delete from audit_private p
    where p.ctid = any (array(
      select t.ctid from theirs t
      union
      select o.ctid from theirs t
      join audit_private o on o.entity_id = t.entity_id and o.tenant_id is not distinct from t.tenant_id
      where o.field = any (p_texts)))
    returning p.tenant_id, p.field, p.commitment),
  numbered as (
    select *, (row_number() over (partition by tenant_id order by commitment) - 1) / 1000 as part from erased),
  events as (
    select tenant_id, count(*)::text || ' personal values were erased' as message,
      p_meta || jsonb_build_object('values', count(*), 'fields', jsonb_agg(distinct field),
        'commitments', jsonb_agg(encode(commitment, 'hex'))) as meta
    from numbered group by tenant_id, part),
  told as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
    select tenant_id, p_actor_type::actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', message, meta,
      atlas_audit_body(tenant_id, p_actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', message, meta)
    from events)
  select count(*) into gone from erased;
  return gone;
end $$;

-- Removes the rows of every seal up to p_through, with their personal values. Their leaves stay, so the tree, old
-- proofs and later verification stand. The order is an event of its own and a row that the trigger asks for.
create or replace function atlas_audit_prune(
  p_through bigint, p_actor_type text, p_actor_id text, p_meta jsonb
) returns bigint language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  seal audit_seal;
  boundary bigint;
  facts jsonb;
  words text;
  gone bigint;
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
  insert into audit_pruned (through_seal) values (p_through);
  with removed as (
    delete from audit_log a
    where a.epoch < seal.epoch
       or (a.epoch = seal.epoch and seal.rest)
       or (a.epoch = seal.epoch and a.xid < pg_snapshot_xmax(seal.snap_cur) and pg_visible_in_snapshot(a.xid, seal.snap_cur)
           and a.id <= boundary)
    returning a.entity_id, a.meta),
  commitments as (
    select r.entity_id, decode(c #>> '{}', 'hex') as commitment
    from removed r, jsonb_path_query(r.meta, '$.**.commitment') c
    where case when c #>> '{}' ~ '^[0-9a-f]{64}$' then true else false end),
  forgotten as (
    delete from audit_private p using commitments c where p.entity_id = c.entity_id and p.commitment = c.commitment),
  forgotten_loose as (
    delete from audit_private p using commitments c where p.entity_id is null and p.commitment = c.commitment)
  select count(*) into gone from removed;
  words := gone || ' rows of the seals up to ' || p_through || ' were removed';
  facts := p_meta || jsonb_build_object('through_seal', p_through, 'rows', gone, 'size', seal.size, 'root', encode(seal.root, 'hex'));
  insert into audit_log (actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  values (p_actor_type::actor_type, p_actor_id, 'warn', 'AUDIT_PRUNED', 'audit_seal', p_through::text, words, facts,
    atlas_audit_body(null, p_actor_type, p_actor_id, 'warn', 'AUDIT_PRUNED', 'audit_seal', p_through::text, words, facts));
  return gone;
end $$;
