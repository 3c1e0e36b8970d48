-- Records for the next claim what a change of a job means for its limits: a start takes a token, an end frees a slot. Jobs without
-- limits never come here. A job that is queued again needs another token: it is held, with its delay, and keeps its slot. One that had
-- ended waits for a slot too. It runs as the owner of the tables: a tenant may retry its jobs, and not choose what they refer to.
create or replace function note_limits() returns trigger language plpgsql volatile security definer
set search_path from current as $$
declare
  its_type constant uuid := old.limit_id;
  has_rate constant boolean := its_type is not null and exists (
    select from job_types y where y.key = old.job_type and y.rate is not null);
  again uuid;
begin
  if tg_op = 'DELETE' or new.status >= 'succeeded' then
    insert into limit_events (limit_id, tenant_id, held_since)
    select l.id, old.tenant_id, null from unnest(array[its_type, old.rate_id]) l(id)
    where l.id is not null and (old.status = 'queued' or (l.id = its_type and old.has_slot));
    if old.status = 'queued' then
      perform pg_notify(current_schema() || '_jobs', '');
    end if;
  elsif new.status = 'running' then
    insert into limit_events (limit_id, tenant_id, started, held_since)
    select l.id, old.tenant_id, true, null from unnest(array[case when has_rate then its_type end, old.rate_id]) l(id) where l.id is not null;
  elsif old.status = 'running' then
    again := case when has_rate then its_type else old.rate_id end;
    if again is not null then
      update only jobs set held_by = again, next_retry_at = coalesce(next_retry_at, '9999-12-31 00:00:00+00')
      where id = old.id and status = 'queued';
      if new.next_retry_at is null then
        insert into limit_events (limit_id, tenant_id, priority, held_since) values (again, old.tenant_id, old.priority, old.created_at);
      end if;
    end if;
  else
    update only jobs set held_by = coalesce(limit_id, rate_id), has_slot = null, next_retry_at = '9999-12-31 00:00:00+00'
    where id = old.id and status = 'queued';
    insert into limit_events (limit_id, tenant_id, priority, held_since)
    values (coalesce(its_type, old.rate_id), old.tenant_id, old.priority, old.created_at);
  end if;
  return null;
end $$;

select secure_trigger('jobs', 'jobs_limited_changed',
  'after update on jobs for each row
  when ((new.limit_id is not null or new.rate_id is not null) and new.status is distinct from old.status) execute function note_limits()');
select secure_trigger('jobs', 'jobs_limited_deleted',
  $on$after delete on jobs for each row
  when ((old.limit_id is not null or old.rate_id is not null) and old.status in ('queued', 'running')) execute function note_limits()$on$);
