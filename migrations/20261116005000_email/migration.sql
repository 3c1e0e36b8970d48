-- Mail: what is known about each sending, so that an attempt whose response never came can be resolved by the next
-- one, and the pace of each sender, shared by all workers.

-- The states and their transitions are in workers/email/mail_state.py.
create table mail_ledger (
  job_id             uuid not null references jobs (id) on delete cascade,
  provider           text not null check (provider <> ''),
  tenant_id          uuid not null,
  sender             text not null,
  state              text not null default 'begun' check (state in (
    'begun', 'drafted', 'discarding', 'sending', 'unknown', 'ordered', 'draft_ordered', 'resending', 'sent')),
  -- The attempt that holds this entry: the fence of every write but the last.
  attempt_no         int not null,
  draft_id           text,
  message_id         text,
  -- The send slot that is reserved for this mail in its sender's pace.
  slot_at            timestamptz(6),
  first_requested_at timestamptz(6),
  created_at         timestamptz(6) not null default clock_timestamp(),
  updated_at         timestamptz(6) not null default clock_timestamp(),
  -- The buckets in which `slot_at` is reserved, as one text.
  slot_pace          text,
  primary key (job_id, provider),
  constraint mail_ledger_drafted_has_a_draft check (state not in ('drafted', 'discarding') or draft_id is not null),
  constraint mail_ledger_sending_was_requested check (
    state not in ('sending', 'unknown', 'ordered', 'resending') or first_requested_at is not null)
);
create index mail_ledger_slots on mail_ledger (slot_pace, slot_at) where slot_at is not null;

-- One row a bucket: the time up to which its pace is spent.
create table mail_pace (
  bucket  text primary key,
  next_at timestamptz(6) not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
