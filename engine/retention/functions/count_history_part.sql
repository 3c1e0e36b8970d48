-- What a drop of a part of history records of each tenant: its jobs, by status, their attempts and steps, the first and the last id. The numbers are those that
-- moves stored, less those that returns took out since, where nothing else has changed them; otherwise they are counted, by indexes alone, so that the jobs are not read. The
-- caller runs as the owner of the tables. Called by drop_history_part.
create or replace function count_history_part(p_part text) returns table (tenant_id uuid, jobs bigint, meta jsonb) language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off as $$
#variable_conflict use_column
declare
  is_stored constant boolean := not exists (select from history_changes c where c.part = p_part and not c.is_move)
    and not exists (select from history_contents h where h.part = p_part and h.jobs is null)
    and exists (select from history_contents h where h.part = p_part);
  stored constant text := $stored$
    with returned as (
      select r.tenant_id, sum(r.jobs) as jobs, sum(r.failed) as failed, sum(r.canceled) as canceled, sum(r.attempts) as attempts, sum(r.steps) as steps
      from history_changes c
      cross join jsonb_to_recordset(c.returned) r(tenant_id uuid, jobs bigint, failed bigint, canceled bigint, attempts bigint, steps bigint)
      where c.part = %2$L and c.returned is not null group by r.tenant_id)
    select h.tenant_id, (h.jobs - coalesce(r.jobs, 0))::bigint as jobs, h.failed - coalesce(r.failed, 0) as failed, h.canceled - coalesce(r.canceled, 0) as canceled,
      h.attempts - coalesce(r.attempts, 0) as attempts, h.steps - coalesce(r.steps, 0) as steps,
      case when r.tenant_id is null then h.min_id else (
        select f.id from only %1$I f where f.tenant_id = h.tenant_id and f.status in ('succeeded', 'failed', 'canceled') order by f.id limit 1) end as first,
      case when r.tenant_id is null then h.max_id else (
        select l.id from only %1$I l where l.tenant_id = h.tenant_id and l.status in ('succeeded', 'failed', 'canceled') order by l.id desc limit 1) end as last
    from history_contents h
    left join returned r on r.tenant_id = h.tenant_id
    where h.part = %2$L and h.jobs > coalesce(r.jobs, 0)$stored$;
  counts constant text := $counts$
    with attempts_of as materialized (%2$s),
    -- all jobs are read once
    jobs_of as materialized (
      select p.tenant_id, count(*) as jobs, coalesce(sum(a.count), 0)::bigint as attempts
      from only %1$I p
      left join attempts_of a on a.job_id = p.id
      where p.status in ('succeeded', 'failed', 'canceled') group by p.tenant_id),
    unsuccessful as materialized (
      select p.tenant_id, count(*) filter (where p.status = 'failed') as failed, count(*) filter (where p.status = 'canceled') as canceled
      from only %1$I p where p.status in ('failed', 'canceled') group by p.tenant_id),
    steps_of as materialized (%3$s)
    select c.tenant_id, c.jobs, coalesce(u.failed, 0) as failed, coalesce(u.canceled, 0) as canceled, c.attempts, coalesce(s.count, 0) as steps,
      (select f.id from only %1$I f where f.tenant_id = c.tenant_id and f.status in ('succeeded', 'failed', 'canceled') order by f.id limit 1) as first,
      (select l.id from only %1$I l where l.tenant_id = c.tenant_id and l.status in ('succeeded', 'failed', 'canceled') order by l.id desc limit 1) as last
    from jobs_of c
    left join unsuccessful u on u.tenant_id = c.tenant_id
    left join steps_of s on s.tenant_id = c.tenant_id$counts$;
  attempts constant text := 'job_attempts_history_' || p_part;
  steps constant text := 'workflow_steps_history_' || p_part;
begin
  return query execute format($facts$
    select c.tenant_id, c.jobs, jsonb_build_object('jobs', c.jobs, 'by_status', (
        select jsonb_object_agg(s.status, s.count)
        from (values ('succeeded', c.jobs - c.failed - c.canceled), ('failed', c.failed), ('canceled', c.canceled)) s(status, count)
        where s.count > 0),
      'attempts', c.attempts, 'steps', c.steps, 'first', c.first, 'last', c.last)
    from (%s) c$facts$, case when is_stored
    then format(stored, 'jobs_history_' || p_part, p_part)
    else format(counts, 'jobs_history_' || p_part,
      case when to_regclass(attempts) is not null then format('select a.job_id, count(*)::int as count from only %I a group by a.job_id', attempts)
           else 'select null::uuid as job_id, 0 as count' end,
      case when to_regclass(steps) is not null then format('select s.tenant_id, count(*) as count from only %I s group by s.tenant_id', steps)
           else 'select null::uuid as tenant_id, 0::bigint as count' end) end);
end $$;
