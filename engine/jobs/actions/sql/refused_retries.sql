-- Which of these jobs a retry by a filter would leave as they are, and with which verdict: those whose outcome is unknown, that have undone what they did, whose server
-- instance or host was removed, or whose dedupe key an active job holds, or a newer one of these jobs. Names no tenant: the caller has listed
-- the ids for its own. SQL, because it compares jobs with other rows of the same table. Called by engine/jobs/actions/bulk_previews.py.
with chosen as (
  select j.id, j.tenant_id, j.dedupe_hash, j.server_instance_id, j.host_id, j.error->>'outcome' = 'unknown' as is_unknown,
    atlas.is_compensated(j.job_type, j.status, j.error) as is_compensated,
    row_number() over (partition by j.tenant_id, j.dedupe_hash order by j.error->>'outcome' = 'unknown' nulls first, j.id desc) as nth
  from atlas.rows_of_jobs(null::atlas.jobs, :ids::uuid[]) j
),
judged as (
  select c.id,
    case
      when c.is_unknown then 'unknown_outcome'
      when c.is_compensated then 'compensated'
      when c.server_instance_id is not null and not exists (select from atlas.server_instances s where s.id = c.server_instance_id)
        or c.host_id is not null and not exists (select from atlas.hosts h where h.id = c.host_id) then 'gone'
      when c.dedupe_hash is not null and (c.nth > 1 or exists (
        select from only atlas.jobs a
        where a.tenant_id = c.tenant_id and a.dedupe_hash = c.dedupe_hash and a.status in ('queued', 'running'))) then 'conflict'
    end as verdict
  from chosen c
)
select id, verdict
from judged
where verdict is not null;
