-- The account proves itself: seals, checkpoints, epochs, personal values apart, and the few verbs of its owner.

-- An epoch is a stretch of history within one cluster. Transaction ids start again in a restored cluster, so the
-- sealer compares the cluster's identifier with the epoch's and refuses to go on where they differ.
create table audit_epoch (
  epoch             int primary key,
  system_identifier bigint not null,
  reason            text not null default '',
  started_at        timestamptz(6) not null default clock_timestamp()
);

-- Which cluster this is; zero where a provider keeps that from everyone. Transaction ids that fall back are noticed anyway.
create function atlas_system_identifier() returns bigint language plpgsql stable as $$
begin
  if has_function_privilege('pg_control_system()', 'execute') then
    return (select system_identifier from pg_control_system());
  end if;
  return 0;
end $$;
insert into audit_epoch (epoch, system_identifier) values (1, atlas_system_identifier());

-- A seal is a batch of rows turned into leaves of the tree. Unique n, first_index and size make a doubled sealer
-- a harmless rollback.
create table audit_seal (
  n                 bigint primary key,
  epoch             int not null,
  system_identifier bigint not null,
  snap_prev         pg_snapshot not null,
  snap_cur          pg_snapshot not null,
  snap_at           timestamptz(6) not null,
  closes            boolean not null,
  rest              boolean not null,
  to_xid            xid8 not null,
  to_id             bigint not null,
  max_id            bigint not null,
  first_index       bigint not null unique,
  count             int not null check (count > 0),
  size              bigint not null unique,
  sealed_at         timestamptz(6) not null,
  header            bytea not null,
  leaf_hashes       bytea not null,
  frontier          bytea not null,
  root              bytea not null check (octet_length(root) = 32),
  constraint audit_seal_leaves_are_counted check (octet_length(leaf_hashes) = count * 32),
  constraint audit_seal_size_is_counted check (size = first_index + count)
);
-- Hashes do not compress, and uncompressed bytes can be read in parts.
alter table audit_seal alter column leaf_hashes set storage external;
create index audit_seal_epoch on audit_seal (epoch, n);
create index audit_seal_sealed_at on audit_seal (sealed_at);

-- Which numbers a tenant's rows have in a batch; for the sealer to go on counting, and for a tenant's export.
create table audit_seal_tenant (
  tenant_id    uuid not null,
  n            bigint not null,
  first_number bigint not null,
  count        int not null check (count > 0),
  primary key (tenant_id, n)
);
create index audit_seal_tenant_n on audit_seal_tenant (n);

create table audit_checkpoint (
  size      bigint not null,
  key_name  text not null,
  epoch     int not null,
  note      text not null,
  signed_at timestamptz(6) not null,
  primary key (size, key_name)
);

-- Orders to remove the rows of old seals, each carried out in the transaction that wrote it.
create table audit_pruned (
  through_seal bigint primary key,
  xid          xid8 not null default pg_current_xact_id(),
  pruned_at    timestamptz(6) not null default clock_timestamp()
);

-- Personal values. The account holds SHA-256(salt, value) in their place; a deleted value leaves it whole.
create table audit_private (
  commitment bytea primary key check (octet_length(commitment) = 32),
  tenant_id  uuid,
  entity_id  text,
  field      text not null,
  salt       bytea not null check (octet_length(salt) = 16),
  value      text not null,
  created_at timestamptz(6) not null default clock_timestamp()
);
-- A tree, not a hash: the same address comes again and again. Subjects are found through their mail, not by their words.
create index audit_private_value on audit_private (lower(value)) where field <> 'subject';
create index audit_private_entity on audit_private (entity_id) where entity_id is not null;

-- The personal values of one tenant, from objects {commitment, field, salt, value, entity_id?}, bytes in hex.
create function atlas_audit_private(p_tenant uuid, p_rows jsonb) returns void language sql as $$
  insert into audit_private (commitment, tenant_id, entity_id, field, salt, value)
  select decode(r.commitment, 'hex'), p_tenant, r.entity_id, r.field, decode(r.salt, 'hex'), r.value
  from jsonb_to_recordset(p_rows) r(commitment text, field text, salt text, value text, entity_id text)
$$;

-- The rows of a window after one place and up to another: committed when p_cur was taken and not when p_prev was.
-- Only what was running at p_prev or began later is looked at, so a long transaction does not make windows slow.
-- p_max_id leaves out rows written in a restored cluster, whose transaction ids repeat old ones.
create function atlas_audit_window(
  p_epoch int, p_prev pg_snapshot, p_cur pg_snapshot, p_after_xid xid8, p_after_id bigint, p_to_xid xid8, p_to_id bigint,
  p_max_id bigint, p_limit int
) returns setof audit_log language sql stable as $$
  (select a.*
   from pg_snapshot_xip(p_prev) x
   cross join lateral (
     select * from audit_log
     where epoch = p_epoch and xid = x and (xid, id) > (p_after_xid, p_after_id)
       and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
       and id <= coalesce(p_max_id, 9223372036854775807)
     order by xid, id limit p_limit) a
   where x >= p_after_xid and pg_visible_in_snapshot(x, p_cur))
  union all
  (select * from audit_log
   where epoch = p_epoch and xid >= pg_snapshot_xmax(p_prev) and xid < pg_snapshot_xmax(p_cur)
     and (xid, id) > (p_after_xid, p_after_id)
     and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
     and id <= coalesce(p_max_id, 9223372036854775807)
     and pg_visible_in_snapshot(xid, p_cur)
   order by xid, id limit p_limit)
  order by xid, id limit p_limit
$$;

-- What was left of an epoch when another began: rows in no batch of it. p_prev, p_cur and p_last are the window and
-- the last row of its last ordinary batch (no p_last where that batch closed its window), p_boundary is the highest id
-- sealed by then. A row above it is left over whatever its transaction id; one below is, if that batch's window did not
-- reach it.
create function atlas_audit_rest(
  p_epoch int, p_prev pg_snapshot, p_cur pg_snapshot, p_last_xid xid8, p_last_id bigint, p_boundary bigint,
  p_after_xid xid8, p_after_id bigint, p_to_xid xid8, p_to_id bigint, p_limit int
) returns setof audit_log language sql stable as $$
  select *
  from (
    select * from audit_log
    where epoch = p_epoch and id > p_boundary
    union all
    select * from audit_log
    where epoch = p_epoch and id <= p_boundary and xid = any (array(select pg_snapshot_xip(p_prev)))
      and not (pg_visible_in_snapshot(xid, p_cur) and (p_last_xid is null or (xid, id) <= (p_last_xid, p_last_id)))
    union all
    select * from audit_log
    where epoch = p_epoch and id <= p_boundary and xid >= pg_snapshot_xmax(p_prev)
      and not (pg_visible_in_snapshot(xid, p_cur) and (p_last_xid is null or (xid, id) <= (p_last_xid, p_last_id)))
  ) left_over
  where (xid, id) > (p_after_xid, p_after_id)
    and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
  order by xid, id limit p_limit
$$;

-- Append-only, for everyone: update, delete and truncate are refused also to superusers in replica mode. One way is
-- open: the owner may delete rows of audit_log under an order in audit_pruned that this very transaction wrote.
create or replace function atlas_audit_is_append_only() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and tg_table_name = 'audit_log' then
    if exists (
      select from audit_pruned p
      join audit_seal s on s.n = p.through_seal
      where p.xid = pg_current_xact_id()
        and pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage')
        and (old.epoch < s.epoch or (old.epoch = s.epoch and (s.rest or pg_visible_in_snapshot(old.xid, s.snap_cur))))
    ) then
      return old;
    end if;
  end if;
  raise exception '% is append-only: % is refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege', hint = 'Add a new row that corrects the old one.';
end $$;

do $$
declare
  name text;
begin
  foreach name in array array['audit_epoch', 'audit_seal', 'audit_seal_tenant', 'audit_checkpoint', 'audit_pruned'] loop
    execute format('create trigger %I before update or delete on %I for each row execute function atlas_audit_is_append_only()',
      name || '_append_only', name);
    execute format('create trigger %I before truncate on %I for each statement execute function atlas_audit_is_append_only()',
      name || '_no_truncate', name);
    execute format('alter table %I enable always trigger %I', name, name || '_append_only');
    execute format('alter table %I enable always trigger %I', name, name || '_no_truncate');
  end loop;
end $$;
-- A personal value may go, but never become another one.
create trigger audit_private_no_update before update on audit_private
  for each row execute function atlas_audit_is_append_only();
create trigger audit_private_no_truncate before truncate on audit_private
  for each statement execute function atlas_audit_is_append_only();
alter table audit_private enable always trigger audit_private_no_update;
alter table audit_private enable always trigger audit_private_no_truncate;

-- Removes a person's values: those equal to p_subject, and the free texts (fields p_texts) of the same things.
-- One event for each tenant and each thousand values tells which commitments no longer have a value.
create function atlas_audit_erase(
  p_subject text, p_tenant uuid, p_texts text[], p_actor_type text, p_actor_id text, p_meta jsonb
) returns int language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  gone int;
begin
  with theirs as (
    select commitment, tenant_id, entity_id from audit_private
    where lower(value) = lower(p_subject) and field <> 'subject' and (p_tenant is null or tenant_id = p_tenant)),
  erased as (
    delete from audit_private p
    where p.commitment in (
      select t.commitment from theirs t
      union
      select o.commitment from theirs t
      join audit_private o on o.entity_id = t.entity_id and o.tenant_id is not distinct from t.tenant_id
      where o.field = any (p_texts))
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
create function atlas_audit_prune(
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
    returning a.meta),
  forgotten as (
    delete from audit_private p
    using removed r, jsonb_path_query(r.meta, '$.**.commitment') c
    where p.commitment = case when c #>> '{}' ~ '^[0-9a-f]{64}$' then decode(c #>> '{}', 'hex') end)
  select count(*) into gone from removed;
  words := gone || ' rows of the seals up to ' || p_through || ' were removed';
  facts := p_meta || jsonb_build_object('through_seal', p_through, 'rows', gone, 'size', seal.size, 'root', encode(seal.root, 'hex'));
  insert into audit_log (actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  values (p_actor_type::actor_type, p_actor_id, 'warn', 'AUDIT_PRUNED', 'audit_seal', p_through::text, words, facts,
    atlas_audit_body(null, p_actor_type, p_actor_id, 'warn', 'AUDIT_PRUNED', 'audit_seal', p_through::text, words, facts));
  return gone;
end $$;

-- Begins the next epoch in this cluster. Changing the default waits for every writer and holds off new ones for that
-- moment, so no row of the old epoch can appear afterwards; the sealer then takes in what was left of it.
create function atlas_audit_new_epoch(
  p_reason text, p_actor_type text, p_actor_id text, p_meta jsonb
) returns int language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  begun int;
  facts jsonb;
begin
  perform pg_advisory_xact_lock(42713, 0);
  select max(epoch) + 1 into begun from audit_epoch;
  execute format('alter table audit_log alter column epoch set default %s', begun);
  insert into audit_epoch (epoch, system_identifier, reason) values (begun, atlas_system_identifier(), p_reason);
  facts := p_meta || jsonb_build_object('epoch', begun);
  insert into audit_log (actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
  values (p_actor_type::actor_type, p_actor_id, 'warn', 'AUDIT_EPOCH', 'audit_epoch', begun::text, p_reason, facts,
    atlas_audit_body(null, p_actor_type, p_actor_id, 'warn', 'AUDIT_EPOCH', 'audit_epoch', begun::text, p_reason, facts));
  return begun;
end $$;

-- Grants. The programs seal, sign and erase; removing rows and beginning an epoch is the owner's.
revoke execute on function atlas_audit_erase(text, uuid, text[], text, text, jsonb) from public;
revoke execute on function atlas_audit_prune(bigint, text, text, jsonb) from public;
revoke execute on function atlas_audit_new_epoch(text, text, text, jsonb) from public;
do $$
declare
  name text;
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant select on audit_epoch, audit_pruned to atlas_engine;
    grant select, insert on audit_seal, audit_seal_tenant, audit_checkpoint, audit_private to atlas_engine;
    grant execute on function atlas_audit_erase(text, uuid, text[], text, text, jsonb) to atlas_engine;
  end if;
  if pg_has_role(current_user, 'atlas_owner', 'member') then
    foreach name in array array[
      'audit_epoch', 'audit_seal', 'audit_seal_tenant', 'audit_checkpoint', 'audit_pruned', 'audit_private'] loop
      execute format('alter table %I owner to atlas_owner', name);
    end loop;
    alter function atlas_audit_erase(text, uuid, text[], text, text, jsonb) owner to atlas_owner;
    alter function atlas_audit_prune(bigint, text, text, jsonb) owner to atlas_owner;
    alter function atlas_audit_new_epoch(text, text, text, jsonb) owner to atlas_owner;
  end if;
exception
  when undefined_object or insufficient_privilege then
    raise notice 'the account stays with its maker; see atlas doctor';
end $$;
