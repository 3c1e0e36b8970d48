-- Counts the jobs of every tenant anew. False: the meter is at work. Looks across tenants.
select atlas.count_jobs();
