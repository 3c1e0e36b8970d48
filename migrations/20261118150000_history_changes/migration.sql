-- What a backup compares: a part of history whose changes are the same as in an earlier backup is not read again.
create table history_changes (
  id             uuid primary key default gen_random_uuid(),
  part           text not null,
  transaction_id bigint not null default (pg_current_xact_id()::text)::bigint
);

create index history_changes_part on history_changes (part);
