-- dead for a day and holding nothing -> removed. A job that still names one is requeued first: the sweep finds it by its row too.
-- Looks across tenants: workers serve them all. SQL, because the guard is on the database's clock.
delete from atlas.job_workers w
where w.dead_at < clock_timestamp() - interval '1 day'
  and not exists (select from only atlas.jobs j where j.claimed_by = w.worker_id and j.status = 'running')
returning w.worker_id;
