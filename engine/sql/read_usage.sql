-- Usage by tenant and job type, and by hour where asked for; or so many rows after one. Without a tenant it looks across all
-- (operators).
select tenant_id, job_type, case when :by_hour::boolean then hour end as hour,
  sum(runs)::bigint as runs, sum(succeeded)::bigint as succeeded, sum(failed)::bigint as failed, sum(timed_out)::bigint as timed_out,
  sum(canceled)::bigint as canceled, sum(lost)::bigint as lost, sum(run_seconds) as run_seconds, sum(queue_seconds) as queue_seconds,
  sum(cost_cents)::bigint as cost_cents
from atlas.usage_hourly
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:start::timestamptz is null or hour >= :start)
  and (:end::timestamptz is null or hour < :end)
  and (:after_type::text is null
    or (case when :by_hour then hour else '-infinity' end, tenant_id, job_type)
       > (coalesce(:after_hour::timestamptz, '-infinity'), :after_tenant::uuid, :after_type))
group by 1, 2, 3
order by 3, 1, 2
limit :limit::bigint;
