-- How often jobs of a type are retried that do not say it themselves. Called by engine/repository.py. SQL, because a function
-- says it.
select atlas.retries_of(:job_type, null);
