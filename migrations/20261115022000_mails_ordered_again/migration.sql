-- Mails that an operator orders again: the order outlives the attempt that reads it. Drafts that are removed: the intent
-- outlives the attempt that has it.

alter table mail_ledger
  -- An operator, who was told that nobody knows what became of the open request, ordered the mail again. While this is
  -- later than `updated_at`, the provider was not asked since, and the entry keeps no other provider from sending it.
  add column ordered_at timestamptz(6),
  -- From here on the draft may be gone because it was removed, which says nothing about its having been sent.
  add column discarded_at timestamptz(6);
