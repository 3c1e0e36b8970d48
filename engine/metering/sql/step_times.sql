-- How long the finished steps of runs took that began between two ids, by workflow, step and kind, those that took most first. It reads the
-- newest :max_runs of these runs among the newest :max_searched, and :max_steps of their steps. With a job type it reads the steps that
-- ran jobs of it. Without a tenant it looks across all (operators). Called by engine/metering/step_times.py. SQL, because it computes
-- percentiles of a bounded piece; each branch reads one index from its end.
with began as (
  (select r.id, r.workflow
  from atlas.workflow_runs r
  where :tenant_id::uuid is not null
    and r.tenant_id = :tenant_id
    and r.id >= :first::uuid
    and r.id < :last::uuid
  order by r.tenant_id desc, r.id desc
  limit :max_searched)
  union all
  (select r.id, r.workflow
  from atlas.workflow_runs r
  where :tenant_id is null
    and r.id >= :first
    and r.id < :last
  order by r.id desc
  limit :max_searched)
),
runs as materialized (
  select b.id, b.workflow
  from began b
  where :workflow::text is null or b.workflow = :workflow
  order by b.id desc
  limit :max_runs
),
steps as materialized (
  select r.workflow, s.name, s.kind, s.status, extract(epoch from s.finished_at - s.started_at)::float8 as seconds
  from runs r
  join atlas.workflow_steps s on s.run_id = r.id
  where s.finished_at is not null
    and (:job_type::text is null or exists (
      select from atlas.jobs j where j.id = s.child_id and j.job_type = :job_type))
  limit :max_steps
),
times as (
  select s.workflow, s.name as step, s.kind::text as kind, count(*)::int as count,
    (count(*) filter (where s.status = 'failed'))::int as failed,
    percentile_cont(0.5) within group (order by s.seconds) as p50,
    percentile_cont(0.95) within group (order by s.seconds) as p95,
    sum(s.seconds) as total_seconds
  from steps s
  group by s.workflow, s.name, s.kind
)
select t.workflow, t.step, t.kind, t.count, t.failed, t.p50, t.p95, t.total_seconds,
  coalesce(t.total_seconds / nullif(sum(t.total_seconds) over (), 0), 0)::float8 as share,
  (select count(*)::int from runs) as runs,
  (select count(*) >= :max_searched from began) or (select count(*) >= :max_runs from runs)
    or (select count(*) >= :max_steps from steps) as is_sampled
from times t
order by t.total_seconds desc, t.workflow, t.step, t.kind
limit :max_shown;
