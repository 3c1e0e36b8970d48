-- After a write that matched no row: has another worker sent the mail? Names no tenant: the job's id does. SQL, because a
-- worker calls it, which does not load the generated client.
select message_id
from only atlas.mail_ledger
where job_id   = :job_id
  and provider = :provider
  and state    = 'sent';
