-- What happened to the jobs of a tenant, or of all, in each step from :start up to :end, and in all of them together: there begins_at is
-- null. Either for all types together, whose job_type is then empty, or for each of the busiest. Called by engine/series.py.
-- SQL, because it adds up lists, for steps and for all in one read. Each of the 17 buckets is a sum of its own: unnesting the lists
-- took ten times as long.
with chosen as materialized (
  select begins_at, case when :by_type::boolean then job_type else '' end as job_type, enqueued, succeeded, failed, dead_lettered, retried,
    canceled, waits, runs
  from atlas.job_series
  where tenant_id = coalesce(:tenant_id::uuid, '00000000-0000-0000-0000-000000000000')
    and step = :step::text::atlas.series_step
    and begins_at >= :start
    and begins_at < :end
    and (:job_type::text is null or job_type = :job_type)
),
busiest as (
  select job_type, sum(enqueued + succeeded + failed + dead_lettered + retried + canceled) as events
  from chosen
  group by job_type
  order by events desc, job_type
  limit :most_types::int
)
select c.job_type, c.begins_at, sum(c.enqueued)::bigint as enqueued, sum(c.succeeded)::bigint as succeeded, sum(c.failed)::bigint as failed,
  sum(c.dead_lettered)::bigint as dead_lettered, sum(c.retried)::bigint as retried, sum(c.canceled)::bigint as canceled,
  array[
    sum(c.waits[1]), sum(c.waits[2]), sum(c.waits[3]), sum(c.waits[4]), sum(c.waits[5]), sum(c.waits[6]),
    sum(c.waits[7]), sum(c.waits[8]), sum(c.waits[9]), sum(c.waits[10]), sum(c.waits[11]), sum(c.waits[12]),
    sum(c.waits[13]), sum(c.waits[14]), sum(c.waits[15]), sum(c.waits[16]), sum(c.waits[17])]::bigint[] as waits,
  array[
    sum(c.runs[1]), sum(c.runs[2]), sum(c.runs[3]), sum(c.runs[4]), sum(c.runs[5]), sum(c.runs[6]),
    sum(c.runs[7]), sum(c.runs[8]), sum(c.runs[9]), sum(c.runs[10]), sum(c.runs[11]), sum(c.runs[12]),
    sum(c.runs[13]), sum(c.runs[14]), sum(c.runs[15]), sum(c.runs[16]), sum(c.runs[17])]::bigint[] as runs
from chosen c
join busiest b on b.job_type = c.job_type
group by grouping sets ((c.job_type, c.begins_at), (c.job_type))
having :with_points::boolean or grouping(c.begins_at) = 1
order by max(b.events) desc, c.job_type, c.begins_at;
