-- Locks ready limited jobs (jobs.careful), only into free slots and only as far as the limits of type and tenant allow. Tenants share the slots by what
-- they have used, where p_fair says so.
-- What is of a paused type or tenant is left out.
-- A run of a workflow in code is left to the living workers that have the code, if there are any; job_workers names their workflows.
-- Its cost grows with the number of (tenant, type) groups that wait, not with the number of jobs, but for runs that are left to others.
-- With p_places (type, tenant, priority, seconds of the epoch) only those are looked at, each from its time on; see find_places.
-- Returns null while another claim is counting. Locks: limits, job rows. Runs under the plan settings of claim_with_limits, which calls it.
create or replace function pick_limited(
  p_worker text, p_types text[], p_slots int, p_fair boolean, p_paused_types text[], p_paused_tenants uuid[], p_places jsonb
) returns tid[] language plpgsql volatile
set search_path from current as $$
declare
  -- Workflows whose code others have and this worker has not.
  elsewhere text[] := '{}';
  counted uuid[];
  picked tid[];
begin
  if p_places is null and (
      select true from only jobs j where is_ready_limited(j)
      order by tenant_id, job_type limit 1) is null then
    return '{}';
  end if;
  if not pg_try_advisory_xact_lock(lock_class('limits'), 0) then
    return null;
  end if;
  if p_types is null or 'ENGINE_RUN' = any (p_types) then
    elsewhere := array(
      select k.workflow from job_workers w
      cross join lateral jsonb_array_elements_text(w.metadata->'workflows') k(workflow)
      where w.dead_at is null and w.lease_expires_at > clock_timestamp()
        and not exists (
          select from job_workers m where m.worker_id = p_worker and m.metadata->'workflows' ? k.workflow));
  end if;
  counted := count_limited_running();
  picked := array(
    with recursive walk as (
      (select tenant_id, job_type from only jobs j
       where p_places is null and is_ready_limited(j)
       order by tenant_id, job_type limit 1)
      union all
      select n.tenant_id, n.job_type
      from walk w
      cross join lateral (
        select j.tenant_id, j.job_type from only jobs j
        where is_ready_limited(j)
          and (j.tenant_id, j.job_type) > (w.tenant_id, w.job_type)
        order by j.tenant_id, j.job_type limit 1) n),
    groups as (
      select w.tenant_id, w.job_type, null::int as priority, null::timestamptz as since from walk w
      union all
      select (e->>1)::uuid, e->>0, (e->>2)::int, to_timestamp(min((e->>3)::float8)) from jsonb_array_elements(p_places) e group by 1, 2, 3),
    running as materialized (
      select j.job_type, j.tenant_id, count(*) as n from only jobs j
      where j.id = any (counted) and case when j.status = 'running' then true else false end group by j.job_type, j.tenant_id),
    room as materialized (
      select g.tenant_id, g.job_type, g.priority, g.since,
        (select y.concurrency from job_types y where y.key = g.job_type and y.concurrency is not null and y.concurrency_key is null)
          - coalesce((select sum(r.n) from running r where r.job_type = g.job_type), 0) as of_type,
        (select (x.limits->>'in_flight')::int from tenants x where x.id = g.tenant_id)
          - coalesce((select sum(r.n) from running r where r.tenant_id = g.tenant_id), 0) as of_tenant
      from groups g
      where (p_types is null or g.job_type = any (p_types))
        and g.job_type <> all (p_paused_types) and g.tenant_id <> all (p_paused_tenants)),
    waiting as materialized (
      select a.at, a.priority, a.created_at, m.tenant_id, m.job_type, m.of_type, m.of_tenant
      from room m
      cross join lateral (
        select * from (
          select j.ctid as at, j.priority, j.created_at from only jobs j
          where is_ready_limited(j)
            and j.tenant_id = m.tenant_id and j.job_type = m.job_type and m.priority is null
            and (m.job_type <> 'ENGINE_RUN' or j.input ? 'documentId' or (j.input->>'workflow' = any (elsewhere)) is not true)
          order by j.priority desc, j.created_at
          limit greatest(0, least(p_slots, m.of_type, m.of_tenant))
          for update skip locked) every
        union all
        select * from (
          select j.ctid as at, j.priority, j.created_at from only jobs j
          where is_ready_limited(j)
            and j.tenant_id = m.tenant_id and j.job_type = m.job_type and j.priority = m.priority and j.created_at >= m.since
            and (m.job_type <> 'ENGINE_RUN' or j.input ? 'documentId' or (j.input->>'workflow' = any (elsewhere)) is not true)
          order by j.priority desc, j.created_at
          limit greatest(0, least(p_slots, m.of_type, m.of_tenant))
          for update skip locked) resumed) a),
    counted as (
      select at, priority, created_at, tenant_id, of_type, of_tenant,
        row_number() over (partition by job_type order by priority desc, created_at) as nth_of_type,
        row_number() over (partition by tenant_id order by priority desc, created_at) as nth_of_tenant
      from waiting)
    select c.at from counted c
    join shares(array(select distinct m.tenant_id from room m), p_fair) s on s.tenant_id = c.tenant_id
    where (c.of_type is null or c.nth_of_type <= c.of_type) and (c.of_tenant is null or c.nth_of_tenant <= c.of_tenant)
    order by s.at + (c.nth_of_tenant - 1) * s.cost, c.priority desc, c.created_at limit p_slots);
  if cardinality(picked) > 0 then
    perform note_limited_running(counted || array(select j.id from only jobs j where j.ctid = any (picked)));
  end if;
  return picked;
end $$;
