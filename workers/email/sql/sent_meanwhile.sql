-- A mail that was found out of reach: is it because somebody has sent it? Names no tenant: the job's id does.
select message_id
from atlas.mail_ledger
where job_id   = :job_id
  and provider = :provider
  and state    = 'sent';
