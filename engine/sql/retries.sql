-- How often a job is retried, for a claimant without its handler. Called by engine/repository.py. SQL, because a function says it.
select atlas.retries_of(job_type, max_retries, retries_chosen) from only atlas.jobs where id = :job_id;
