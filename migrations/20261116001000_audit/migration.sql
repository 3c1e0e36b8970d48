-- The audit log: rows, seals, checkpoints, epochs, and personal values kept apart. Their triggers come with their functions.

-- The audit log. No unique index on id: the sealer proves the rows, and a key would be paid for by every job.
create table audit_log (
  id          bigint not null generated always as identity,
  epoch       int not null default 1,
  xid         xid8 not null default pg_current_xact_id(),
  created_at  timestamptz(6) not null default clock_timestamp(),
  tenant_id   uuid,
  actor_type  actor_type not null,
  actor_id    text not null,
  level       audit_level not null default 'info',
  action      text not null,
  entity_type text not null,
  entity_id   text not null,
  message     text not null default '',
  meta        jsonb not null default '{}',
  body        bytea not null
) with (
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000,
  autovacuum_analyze_scale_factor = 0.5, autovacuum_analyze_threshold = 50000);
create index audit_log_seal on audit_log (epoch, xid, id);
create index audit_log_tenant on audit_log (tenant_id, id);
-- Half-full leaves: the entry of a job's outcome comes beside that of its creation, often long after.
create index audit_log_entity on audit_log (entity_id) with (fillfactor = 50);
create index audit_log_id on audit_log using brin (id) with (pages_per_range = 16);

-- The rows as they are searched and shown: without the bytes that are hashed, and with the facts as text.
create view audit_entries with (security_invoker = true) as
select id, epoch, xid::text as xid, created_at, tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message,
  meta::text as meta_text
from audit_log;

-- An epoch is a stretch of history within one cluster. Transaction ids start again in a restored cluster, so the
-- sealer compares the cluster's identifier with the epoch's and refuses to go on where they differ.
create table audit_epoch (
  epoch             int primary key,
  system_identifier bigint not null,
  reason            text not null default '',
  started_at        timestamptz(6) not null default clock_timestamp()
);

-- A seal is a batch of rows turned into leaves of the tree. Unique n, first_index and size make a doubled sealer
-- a harmless rollback.
create table audit_seal (
  n                 bigint primary key,
  epoch             int not null,
  epoch_at          timestamptz(6) not null,
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

-- What a tenant's audit log held at the installations it came from: exports with proofs, in pieces, as they were verified when
-- the tenant was imported. TENANT_IMPORTED has the digest of each part.
create table audit_moved (
  tenant_id uuid not null,
  part      int not null check (part > 0),
  piece     int not null check (piece > 0),
  lines     bytea not null,
  primary key (tenant_id, part, piece)
);

-- Personal values. The audit log holds SHA-256(salt, value) in their place; a deleted value leaves it whole.
create table audit_private (
  commitment bytea not null check (octet_length(commitment) = 32),
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
-- Values of no entity are few. The others are found through their entity: commitments are random, and a key on them costs a
-- mail a third of its time in the database.
create unique index audit_private_loose on audit_private (commitment) where entity_id is null;
-- Without a key, logical replication identifies a deleted value by the whole row.
alter table audit_private replica identity full;

-- Searches go by indexes: a small sample of what is filtered by is enough, and what no plan asks for is not sampled at all.
do $$
declare
  col record;
begin
  for col in
    select attname from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table audit_log alter column %I set statistics %s', col.attname,
      case when col.attname in ('id', 'tenant_id', 'created_at', 'actor_id', 'action', 'level', 'entity_type', 'entity_id')
           then 20 else 0 end);
  end loop;
end $$;
