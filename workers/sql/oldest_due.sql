-- When the first of the jobs fell due that no claim and no sweep has marked as ready yet; no row: there is none. Looks across tenants: a drain serves
-- them all. Called by workers/claims/drain.py. SQL, because it compares on the database's clock.
select j.next_retry_at
from only atlas.jobs j
where j.status = 'queued'
  and j.next_retry_at <= clock_timestamp()
order by j.next_retry_at
limit 1;
