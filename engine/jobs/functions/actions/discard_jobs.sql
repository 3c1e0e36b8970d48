-- dead letter -> failed, with JOB_DISCARDED: it stays as it ended, and is removed when it is past its age, which a dead letter
-- never is. Returns what became of each job; none in history is a dead letter. Those of a tenant that moves stay.
-- Locks: job rows in ascending id. Called by change_jobs.
create or replace function discard_jobs(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  with target as materialized (
    select id, shown_status(j) as shown_status from only jobs j
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and tenant_id <> all (moving_tenants())
    order by id
    for update
  ),
  discarded as (
    update only jobs j
    set dead_lettered_at = null, updated_at = clock_timestamp()
    from target t
    where j.id = t.id and j.status = 'failed' and j.dead_lettered_at is not null
    returning j.id, j.tenant_id, p_meta || jsonb_build_object('job_type', j.job_type) as meta
  ),
  written as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, meta, body)
    select d.tenant_id, p_actor_type::actor_type, p_actor_id, 'warn', 'JOB_DISCARDED', 'job', d.id, d.meta,
      audit_body(d.tenant_id, p_actor_type, p_actor_id, 'warn', 'JOB_DISCARDED', 'job', d.id::text, '', d.meta)
    from discarded d
  )
  select t.id, case when d.id is null then t.shown_status else 'discarded' end
  from target t
  left join discarded d on d.id = t.id
  union all
  select h.id, h.status::text
  from history_rows(array(select u.id from unnest(p_ids) u(id) where not exists (select from only jobs j where j.id = u.id))) h
  where (p_tenant is null or h.tenant_id = p_tenant) and h.tenant_id <> all (moving_tenants());
end $$;
