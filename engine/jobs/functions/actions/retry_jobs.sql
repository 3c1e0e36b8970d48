-- failed or canceled -> queued, as new, requested by an operator. A job whose dedupe key is held by another stays as it is, and
-- so does a run while a child that it waited for, or one of that, was asked to stop and still runs: it would run beside itself.
-- So does a run that has undone what it did, and a job whose server instance or host was removed, and one of a tenant that moves.
-- Locks: history, shared, then job rows in ascending id. Called by change_jobs.
create or replace function retry_jobs(p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  one record;
  runs uuid[] := '{}';
  plain uuid[];
begin
  -- What is in history comes back.
  perform return_jobs(p_ids);
  -- Locked first, in order: the statements after this one see the rows as they will stay.
  p_ids := array(
    select id from only jobs
    where id = any (p_ids) and (p_tenant is null or tenant_id = p_tenant) and tenant_id <> all (moving_tenants()) order by id for update);
  -- Those that nothing can keep from it go together: no dedupe key, no host, no run.
  plain := array(
    select id from only jobs
    where id = any (p_ids) and case
      when status in ('failed', 'canceled') and dedupe_hash is null and server_instance_id is null and host_id is null
        and job_type <> 'ENGINE_RUN' then true else false end);
  return query select r, 'retried' from reopen_jobs(plain, p_actor_type, p_actor_id, p_meta) r;
  for one in
    select id, status, job_type, server_instance_id, host_id, error from only jobs
    where id = any (p_ids) and id <> all (plain) order by id
  loop
    id := one.id;
    if one.status not in ('failed', 'canceled') then
      verdict := one.status::text;
      return next;
      continue;
    end if;
    if is_compensated(one.job_type, one.status, one.error) then
      verdict := 'compensated';
      return next;
      continue;
    end if;
    if one.job_type = 'ENGINE_RUN' and is_stopping(one.id) then
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
    begin
      perform reopen_jobs(array[one.id], p_actor_type, p_actor_id, p_meta);
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
