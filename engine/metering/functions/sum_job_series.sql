-- What happened to jobs in steps from p_start up to p_end, added up: p_by = 'all' for all job types together, 'type' for each type, 'tenant'
-- for each tenant. A row for each step with p_points, one of all steps otherwise. p_tenant null: of all tenants. p_most: that many of the busiest
-- alone.
-- The statement is built here, because each bucket of `duration_bounds` is a sum of its own: unnesting the lists took five times as long.
-- Called by engine/metering/sql/series.sql.
create or replace function sum_job_series(
  p_tenant uuid, p_step series_step, p_start timestamptz, p_end timestamptz, p_job_type text, p_by text, p_points boolean, p_most int
) returns table (
  name text, begins_at timestamptz, enqueued bigint, succeeded bigint, failed bigint, dead_lettered bigint, retried bigint, canceled bigint,
  attempts bigint, timed_out bigint, lost bigint, run_seconds float8, cost_cents bigint, waits bigint[], runs bigint[]
) language plpgsql stable
set search_path from current set jit = off as $$
declare
  buckets constant int := cardinality(duration_bounds()) + 1;
begin
  return query execute format($query$
    with chosen as materialized (
      select case $6 when 'type' then job_type when 'tenant' then tenant_id::text else '' end as name,
        case when $7 then begins_at end as begins_at, enqueued, succeeded, failed, dead_lettered, retried, canceled, attempts, timed_out,
        lost, run_seconds, cost_cents, waits, runs
      from job_series
      where case when $6 = 'tenant' then tenant_id <> '00000000-0000-0000-0000-000000000000' and ($1 is null or tenant_id = $1)
                 else tenant_id = coalesce($1, '00000000-0000-0000-0000-000000000000') end
        and step = $2
        and begins_at >= $3
        and begins_at < $4
        and ($5 is null or job_type = $5)),
    busiest as (
      select name, sum(enqueued + succeeded + failed + dead_lettered + retried + canceled) as events
      from chosen
      group by name
      order by events desc, name
      limit $8)
    select c.name, c.begins_at, sum(c.enqueued)::bigint, sum(c.succeeded)::bigint, sum(c.failed)::bigint, sum(c.dead_lettered)::bigint,
      sum(c.retried)::bigint, sum(c.canceled)::bigint, sum(c.attempts)::bigint, sum(c.timed_out)::bigint, sum(c.lost)::bigint,
      sum(c.run_seconds), sum(c.cost_cents)::bigint, array[%s]::bigint[], array[%s]::bigint[]
    from chosen c
    join busiest b on b.name = c.name
    group by c.name, c.begins_at
    order by max(b.events) desc, c.name, c.begins_at$query$,
    (select string_agg(format('sum(c.waits[%s])', n), ', ') from generate_series(1, buckets) n),
    (select string_agg(format('sum(c.runs[%s])', n), ', ') from generate_series(1, buckets) n))
  using p_tenant, p_step, p_start, p_end, p_job_type, p_by, p_points, p_most;
end $$;
