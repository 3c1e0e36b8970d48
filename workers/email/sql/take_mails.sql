-- What earlier attempts of this job left of its mail, if this attempt still holds the job. Names no tenant: the job's id and its lease do. SQL, because a function
-- does it.
select id, provider, state, reference, detail, age, has_slot
from atlas.take_mails(:job_id, :worker, :attempt);
