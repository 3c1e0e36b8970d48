-- Where the limits of a type or the rate of a tenant change, the next claims look at its held jobs again, by the new terms.
-- It runs as the owner of the tables, whoever changes a limit. The limits that hold jobs are found one by one in the index of held jobs.
create or replace function recheck_limits() returns trigger language plpgsql volatile security definer
set search_path from current set enable_seqscan = off as $$
begin
  if tg_table_name = 'tenants' then
    insert into limit_events (limit_id, tenant_id) values (new.id, new.id);
  else
    insert into limit_events (limit_id, tenant_id)
    with recursive holding as (
      (select j.held_by, j.limit_id, j.job_type, j.tenant_id from only jobs j
       where j.held_by is not null and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00' order by j.held_by limit 1)
      union all
      select n.* from holding h
      cross join lateral (
        select j.held_by, j.limit_id, j.job_type, j.tenant_id from only jobs j
        where j.held_by > h.held_by and j.status = 'queued' and j.next_retry_at >= '9999-01-01 00:00:00+00' order by j.held_by limit 1) n)
    select held_by, tenant_id from holding where held_by = limit_id and job_type = new.key;
  end if;
  perform pg_notify(current_schema() || '_jobs', '');
  return null;
end $$;

select secure_trigger('job_types', 'job_types_limits_changed',
  'after update on job_types for each row
  when (row(old.concurrency, old.concurrency_key, old.rate, old.burst) is distinct from row(new.concurrency, new.concurrency_key, new.rate, new.burst))
  execute function recheck_limits()');
select secure_trigger('tenants', 'tenants_rate_changed',
  $on$after update on tenants for each row
  when (row(old.limits->'rate', old.limits->'burst') is distinct from row(new.limits->'rate', new.limits->'burst'))
  execute function recheck_limits()$on$);
