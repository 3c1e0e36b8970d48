-- Which of these failed and canceled jobs a retry would leave as they are, and with which verdict: runs that have undone what they did, or of which
-- something is stopping, jobs whose server instance or host was removed, or whose dedupe key an active job holds, or a newer one of these jobs. By a
-- filter also those whose outcome is unknown. Names no tenant: the caller has listed the ids for its own. SQL, because it compares jobs with other
-- rows of the same table. Called by engine/jobs/actions/bulk_previews.py.
with chosen as (
  select j.id, j.tenant_id, j.dedupe_hash,
    case
      when j.error->>'outcome' = 'unknown' and not :by_ids::boolean then 'unknown_outcome'
      when atlas.is_compensated(j.job_type, j.status, j.error) then 'compensated'
      when j.job_type = 'ENGINE_RUN' and atlas.is_stopping(j.id) then 'stopping'
      when j.server_instance_id is not null and not exists (select from atlas.server_instances s where s.id = j.server_instance_id)
        or j.host_id is not null and not exists (select from atlas.hosts h where h.id = j.host_id) then 'gone'
    end as verdict
  from atlas.rows_of_jobs(null::atlas.jobs, :ids::uuid[]) j
),
judged as (
  select c.id,
    coalesce(c.verdict, case when c.dedupe_hash is not null and (
      row_number() over (partition by c.tenant_id, c.dedupe_hash, c.verdict is null order by c.id desc) > 1
      or exists (
        select from only atlas.jobs a
        where a.tenant_id = c.tenant_id and a.dedupe_hash = c.dedupe_hash and a.status in ('queued', 'running'))) then 'conflict' end) as verdict
  from chosen c
)
select id, verdict
from judged
where verdict is not null;
