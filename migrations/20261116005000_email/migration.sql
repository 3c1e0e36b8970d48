-- Mail: what is known about each sending, so that an attempt whose response never came can be resolved by the next
-- one, and the pace of each sender, shared by all workers.

-- begun -> drafted -> sending -> sent. From `sending` on the provider may have the mail, whatever happened to its answer.
create table mail_ledger (
  job_id             uuid not null references jobs (id) on delete cascade,
  provider           text not null check (provider <> ''),
  tenant_id          uuid not null,
  sender             text not null,
  state              text not null default 'begun' check (state in ('begun', 'drafted', 'sending', 'sent')),
  -- The attempt that has this entry in hand: the fence of every write but the last.
  attempt_no         int not null,
  draft_id           text,
  message_id         text,
  -- The send slot that is reserved for this mail in its sender's pace.
  slot_at            timestamptz(6),
  first_requested_at timestamptz(6),
  created_at         timestamptz(6) not null default clock_timestamp(),
  updated_at         timestamptz(6) not null default clock_timestamp(),
  -- An operator, who knew that the outcome of the open request is unknown, ordered the mail again. While this is later than
  -- `updated_at`, the provider was not asked since, and the entry keeps no other provider from sending it.
  ordered_at         timestamptz(6),
  -- From here on the draft may be gone because it was removed, which says nothing about its having been sent.
  discarded_at       timestamptz(6),
  -- The buckets in which `slot_at` is reserved, as one text.
  slot_pace          text,
  primary key (job_id, provider),
  constraint mail_ledger_drafted_has_a_draft check (state <> 'drafted' or draft_id is not null),
  constraint mail_ledger_sending_was_requested check (state <> 'sending' or first_requested_at is not null)
);
create index mail_ledger_slots on mail_ledger (slot_pace, slot_at) where slot_at is not null;

-- One row a bucket: the time up to which its pace is spent.
create table mail_pace (
  bucket  text primary key,
  next_at timestamptz(6) not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
