-- Counts the jobs of every tenant anew. False: the meter is at work. Looks across tenants. SQL, because a function does it.
select atlas.count_jobs();
