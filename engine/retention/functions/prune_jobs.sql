-- Looks at up to p_limit ended jobs of a tenant, by id, and deletes what is past its age: jobs, attempts, steps of runs that
-- succeeded. A null time keeps everything of that kind. Never deletes: dead letters and their attempts; what is not metered yet,
-- with an hour to spare for transactions in flight; children of a run that still goes on, or that is a dead letter
-- and may be retried; jobs of a group that has not ended; rows that are locked. Called by engine/retention/retention.py.
create or replace function prune_jobs(
  p_tenant uuid, p_after uuid, p_until uuid, p_limit int, p_jobs timestamptz, p_attempts timestamptz, p_steps timestamptz
) returns table (looked int, last uuid, jobs int, attempts int, steps int) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
declare
  metered timestamptz := (
    select (s.value->>'read_until')::timestamptz - interval '1 hour' from system_state s where s.key = 'usage_meter');
  batch uuid[];
  doomed uuid[];
  facts jsonb;
  by_status jsonb;
begin
  batch := array(
    select j.id from only jobs j
    where j.tenant_id = p_tenant and j.status in ('succeeded', 'failed', 'canceled') and j.id > p_after and j.id < p_until
    order by j.id limit p_limit);
  looked := cardinality(batch);
  last := batch[looked];
  if looked = 0 or metered is null then
    looked := 0;
    return next;
    return;
  end if;
  doomed := array(
    select j.id from only jobs j
    where p_jobs is not null and j.id = any (batch) and j.status in ('succeeded', 'failed', 'canceled')
      and j.dead_lettered_at is null and j.finished_at < least(p_jobs, metered)
      and not exists (
        select from only jobs p
        where p.id = j.parent_run_id and (p.status in ('queued', 'running') or p.dead_lettered_at is not null))
      and not exists (select from job_groups g where g.id = j.group_id and g.ended_at is null)
    order by j.id for update skip locked);
  delete from only job_attempts a
  using only jobs j
  where p_attempts is not null and a.job_id = any (batch) and a.job_id <> all (doomed) and j.id = a.job_id
    and j.status in ('succeeded', 'failed', 'canceled') and j.dead_lettered_at is null
    and a.finished_at < least(p_attempts, metered);
  get diagnostics attempts = row_count;
  -- A run that failed or was canceled may be continued where it stopped; one that succeeded may not.
  delete from only workflow_steps s
  using only jobs j
  where p_steps is not null and s.run_id = any (batch) and s.run_id <> all (doomed) and j.id = s.run_id
    and j.job_type = 'ENGINE_RUN' and j.status = 'succeeded' and j.finished_at < p_steps;
  get diagnostics steps = row_count;
  by_status := (
    select jsonb_object_agg(s.status, s.count) from (
      select j.status, count(*) as count from only jobs j where j.id = any (doomed) group by j.status) s);
  -- The checks of the keys that refer to jobs are planned once, not for each job and key.
  perform set_config('plan_cache_mode', 'auto', true);
  delete from only jobs j where j.id = any (doomed);
  get diagnostics jobs = row_count;
  if jobs + attempts + steps > 0 then
    facts := jsonb_build_object('jobs', jobs, 'by_status', coalesce(by_status, '{}'), 'attempts', attempts, 'steps', steps,
      'first', doomed[1], 'last', doomed[cardinality(doomed)]);
    perform record_event(p_tenant, 'system', 'retention', 'info', 'JOBS_PRUNED', 'tenant', p_tenant::text, '', facts);
  end if;
  return next;
end $$;
