-- Other spellings of a job type, stored as the one that workers serve.
create or replace function canonical_type(job_type text) returns text language sql immutable parallel safe
return case when job_type in ('EMAILSEND', 'email_send') then 'EMAIL_SEND' else job_type end;
