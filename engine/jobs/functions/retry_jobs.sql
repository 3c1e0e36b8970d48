-- failed or canceled -> queued, as new, asked for by an operator. A job whose dedupe key is held by another stays as it is, and
-- so does a run while a child that it waited for, or one of that, was asked to stop and still runs: it would run beside itself.
-- So does a job whose server instance or host was removed, and one of a tenant that moves.
-- Locks: job rows in ascending id. Called by engine/jobs/retry.py.
create or replace function retry_jobs(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  one record;
  facts jsonb;
  runs uuid[] := '{}';
begin
  for one in
    select id, tenant_id, status, job_type, server_instance_id, host_id, dead_lettered_at is not null as dead_lettered from jobs
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and tenant_id <> all (moving_tenants()) order by id for update
  loop
    id := one.id;
    if one.status not in ('failed', 'canceled') then
      verdict := one.status::text;
      return next;
      continue;
    end if;
    if one.job_type = 'ENGINE_RUN' and exists (
      with recursive below as (
        select c.id, c.status, c.cancel_requested_at from workflow_steps s
        join jobs c on c.id = s.child_id
        where s.run_id = one.id and s.status in ('waiting', 'failed')
        union
        select c.id, c.status, c.cancel_requested_at from below b
        join workflow_steps s on s.run_id = b.id and s.status in ('waiting', 'failed')
        join jobs c on c.id = s.child_id)
      select from below b where b.status = 'running' and b.cancel_requested_at is not null)
    then
      verdict := 'stopping';
      return next;
      continue;
    end if;
    if (one.server_instance_id is not null and not exists (select from server_instances s where s.id = one.server_instance_id))
      or (one.host_id is not null and not exists (select from hosts h where h.id = one.host_id)) then
      verdict := 'gone';
      return next;
      continue;
    end if;
    facts := p_meta || jsonb_build_object('status', one.status, 'dead_lettered', one.dead_lettered);
    begin
      update jobs
      set status = 'queued', retry_count = 0, lost_count = 0, careful = false, next_retry_at = null, due_at = clock_timestamp(),
          dead_lettered_at = null,
          -- Deadlines that are over would end it again.
          start_by = case when finish_by > clock_timestamp() then finish_by end,
          finish_by = case when finish_by > clock_timestamp() then finish_by end,
          finished_at = null, claimed_by = null, cancel_requested_at = null, cancel_requested_by = null, progress = null,
          updated_at = clock_timestamp()
      where id = one.id and status in ('failed', 'canceled');
      insert into audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
      values (one.tenant_id, p_actor_type::actor_type, p_actor_id, 'JOB_RETRIED', 'job', one.id, facts,
        audit_body(one.tenant_id, p_actor_type, p_actor_id, 'info', 'JOB_RETRIED', 'job', one.id::text, '', facts));
      verdict := 'retried';
      if one.job_type = 'ENGINE_RUN' then
        runs := runs || one.id;
      end if;
    exception
      when unique_violation then verdict := 'conflict';
    end;
    return next;
  end loop;
  perform runs_reopened(runs);
  perform pg_notify(current_schema() || '_jobs', '');
end $$;
