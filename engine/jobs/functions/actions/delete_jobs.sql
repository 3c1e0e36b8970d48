-- any state but running -> gone, with JOB_DELETED. Returns what became of each job. Those of a tenant that moves stay.
-- Locks: history, shared, then job rows in ascending id. Called by change_jobs.
create or replace function delete_jobs(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  -- What is in history comes back, and goes with the rows that refer to it.
  perform return_jobs(p_ids);
  return query
  with target as materialized (
    -- the rows as they are, held until the end of the transaction
    select id from only jobs
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and tenant_id <> all (moving_tenants())
    order by id
    for update
  ),
  deleted as (
    delete from only jobs j
    using target t
    where j.id = t.id and j.status <> 'running'
    returning j.id, j.tenant_id, j.job_type, j.status, j.dead_lettered_at is not null as dead_lettered
  ),
  event as (
    select d.tenant_id, d.id::text as entity_id,
      p_meta || jsonb_build_object('job_type', d.job_type, 'status', d.status, 'dead_lettered', d.dead_lettered) as meta
    from deleted d
  ),
  written as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, meta, body)
    select e.tenant_id, p_actor_type::actor_type, p_actor_id, 'warn', 'JOB_DELETED', 'job', e.entity_id, e.meta,
      audit_body(e.tenant_id, p_actor_type, p_actor_id, 'warn', 'JOB_DELETED', 'job', e.entity_id, '', e.meta)
    from event e
  )
  select t.id, case when d.id is null then 'running' else 'deleted' end
  from target t
  left join deleted d on d.id = t.id;
end $$;
