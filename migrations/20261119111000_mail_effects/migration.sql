-- Mails are effects: what became of a mail at each provider is in `effects`. `mail_ledger` is read for mails that a program of the release before has begun.

-- When the first of the calls began that may have been made: a refusal ends them, and so does a person who accepts that a second effect may be made. Null: none
-- counts.
alter table effects add column first_called_at timestamptz(6);
update only effects set first_called_at = created_at where state in ('intended', 'unknown');

-- The send slots of mails that wait for them, in the pace of their senders.
create table mail_slots (
  job_id    uuid not null references jobs (id) on delete cascade,
  provider  text not null check (provider <> ''),
  tenant_id uuid not null,
  -- The buckets in which the slot is reserved, as one text.
  pace      text not null,
  slot_at   timestamptz(6) not null,
  primary key (job_id, provider)
);
create index mail_slots_of_pace on mail_slots (pace, slot_at);
