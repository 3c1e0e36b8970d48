-- drafted -> begun: the draft was removed. Or sending -> sending: a mail that an operator ordered is made anew, and the
-- draft of the open request is left behind, and its mailbox with it.
update atlas.mail_ledger
set state        = case when state = 'drafted' then 'begun' else state end,
    draft_id     = null,
    discarded_at = null
where job_id     = :job_id
  and provider   = :provider
  and attempt_no = :attempt
  and state in ('drafted', 'sending')
returning job_id;
