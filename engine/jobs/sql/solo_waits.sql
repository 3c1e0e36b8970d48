-- Whether a job that must run alone waits for a worker of these types. Looks across tenants: a worker serves them all.
-- Asked only by a worker that holds back for such a job. SQL, because a function gives the bound, and a worker calls it.
with waiting as materialized (
  select job_type, lost_count
  from only atlas.jobs j
  where atlas.is_ready_limited(j)
  order by tenant_id, job_type, priority desc, created_at
)
select exists (select from waiting where lost_count >= atlas.alone_after_losses() and job_type = any (:types));
