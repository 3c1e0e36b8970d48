-- The ids of a page of jobs, newest first; they are time-ordered. Without a tenant it looks across all (operators).
-- No index holds every job of a tenant: an arm for each partial index. `arms` names those that are read; the others cost nothing.
-- Behind row-level security the planner has no statistics of a status, so no arm leaves it a choice: the index that fits has
-- the arm's order too, or nothing is ordered. Across tenants an arm reads the newest of each tenant that its index holds; only
-- a list of everything, or of what succeeded, follows the key.
-- A page ends early after the job that reaches :most_bytes, so that large inputs do not fill a process; `page_size` is how many
-- it would have had.
-- A filter that no index serves may match nothing in a long history: then a page looks at :most_read jobs of each arm, and ends at
-- `floor`, the newest job at which an arm stops; the next page begins there. Without such a filter :most_read is null.
-- The only row of an empty page has no id. Called by engine/jobs/job_list.py, which reads the jobs of a page typed. SQL, because several
-- partial indexes are read side by side, from tenant to tenant and each only so far: Prisma has neither `union` nor a bound on what is read.
with recursive
-- the tenants with queued jobs, from one to the next along the index; or the one that is asked for
queued_tenants as (
  select coalesce(:tenant_id::uuid, (select tenant_id from atlas.jobs where status = 'queued' order by tenant_id limit 1)) as tenant_id
  where 'queued' = any (:arms::text[])
  union all
  select (select j.tenant_id from atlas.jobs j where j.status = 'queued' and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from queued_tenants t
  where :tenant_id is null and t.tenant_id is not null
),
-- the same of those that are due later, by the condition of their index
waiting_tenants as (
  select coalesce(:tenant_id, (
    select tenant_id from atlas.jobs j where atlas.is_listed(j, 'waiting') order by tenant_id limit 1)) as tenant_id
  where 'waiting' = any (:arms)
  union all
  select (
    select j.tenant_id from atlas.jobs j where atlas.is_listed(j, 'waiting') and j.tenant_id > t.tenant_id
    order by j.tenant_id limit 1)
  from waiting_tenants t
  where :tenant_id is null and t.tenant_id is not null
),
-- the same of failed and canceled jobs without the dead letters, and of these
failed_tenants as (
  select coalesce(:tenant_id, (
    select tenant_id from atlas.jobs j where atlas.is_listed(j, 'failed') order by tenant_id limit 1)) as tenant_id
  where 'failed' = any (:arms)
  union all
  select (
    select j.tenant_id from atlas.jobs j where atlas.is_listed(j, 'failed') and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from failed_tenants t
  where :tenant_id is null and t.tenant_id is not null
),
dead_letter_tenants as (
  select coalesce(:tenant_id, (
    select tenant_id from atlas.jobs j where atlas.is_listed(j, 'dead_letter') order by tenant_id limit 1)) as tenant_id
  where 'dead_letter' = any (:arms)
  union all
  select (
    select j.tenant_id from atlas.jobs j where atlas.is_listed(j, 'dead_letter') and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from dead_letter_tenants t
  where :tenant_id is null and t.tenant_id is not null
),
-- the tenants with jobs under the correlation id
correlation_tenants as (
  select coalesce(:tenant_id, (
    select tenant_id from atlas.jobs where correlation_id = :correlation_id::text order by tenant_id limit 1)) as tenant_id
  where 'correlation' = any (:arms)
  union all
  select (
    select j.tenant_id from atlas.jobs j where j.correlation_id = :correlation_id and j.tenant_id > t.tenant_id order by j.tenant_id limit 1)
  from correlation_tenants t
  where :tenant_id is null and t.tenant_id is not null
),
-- every running job, or those of the tenant: few, and no index has their order
running as materialized (
  select * from atlas.jobs j
  where status = 'running'
    and 'running' = any (:arms)
    and (:tenant_id is null or tenant_id = :tenant_id)
),
-- where each arm stops
floors as (
  select case when :most_read::int is not null and 'key' = any (:arms) then (
    select id from atlas.jobs j
    where id < :before::uuid
    order by id desc offset :most_read - 1 limit 1) end as id
  union all
  select case when :most_read is not null and 'ended' = any (:arms) then (
    select id from atlas.jobs j
    where tenant_id = :tenant_id
      and status in ('succeeded', 'failed', 'canceled')
      and id < :before
      and (tenant_id, id) < (:tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  union all
  select case when :most_read is not null then (
    select id from atlas.jobs j
    where status = 'queued'
      and tenant_id = t.tenant_id
      and id < :before
      and (tenant_id, id) < (t.tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  from queued_tenants t
  union all
  select case when :most_read is not null then (
    select id from atlas.jobs j
    where atlas.is_listed(j, 'waiting')
      and tenant_id = t.tenant_id
      and id < :before
      and (tenant_id, id) < (t.tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  from waiting_tenants t
  union all
  select case when :most_read is not null then (
    select id from atlas.jobs j
    where atlas.is_listed(j, 'failed')
      and tenant_id = t.tenant_id
      and id < :before
      and (tenant_id, id) < (t.tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  from failed_tenants t
  union all
  select case when :most_read is not null then (
    select id from atlas.jobs j
    where atlas.is_listed(j, 'dead_letter')
      and tenant_id = t.tenant_id
      and id < :before
      and (tenant_id, id) < (t.tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  from dead_letter_tenants t
  union all
  select case when :most_read is not null then (
    select id from atlas.jobs j
    where correlation_id = :correlation_id
      and tenant_id = t.tenant_id
      and id < :before
      and (tenant_id, id) < (t.tenant_id, :before)
    order by id desc offset :most_read - 1 limit 1) end
  from correlation_tenants t
),
-- Never null, like :before: behind row-level security a call of coalesce within a condition would keep it from the index. A tenant's
-- arm compares both twice: alone, so that its index is read from the one to the other, and together with the tenant, so that the
-- key of all tenants is no way in.
floor as materialized (
  select coalesce(f.reached, :lowest::uuid, '00000000-0000-0000-0000-000000000000') as id, f.reached
  from (
    select (
      select id from floors where id > coalesce(:lowest::uuid, '00000000-0000-0000-0000-000000000000') order by id desc limit 1) as reached
  ) f
),
found as (
  (select * from atlas.jobs j
   where 'key' = any (:arms)
     and (:statuses::text[] is null or status = 'succeeded')
     and id < :before
     and id >= (select id from floor)
     and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
   order by id desc limit :limit::int + :offset::int)
  union all
  (select * from atlas.jobs j
   where 'ended' = any (:arms)
     and tenant_id = :tenant_id
     and status in ('succeeded', 'failed', 'canceled')
     and (:statuses is null or status = 'succeeded')
     and id < :before
     and (tenant_id, id) < (:tenant_id, :before)
     and id >= (select id from floor)
     and (tenant_id, id) >= (:tenant_id, (select id from floor))
     and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
   order by id desc limit :limit + :offset)
  union all
  (select * from running j
   where id < :before
     and id >= (select id from floor)
     and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
   order by id desc limit :limit + :offset)
  union all
  (select j.* from queued_tenants t
   cross join lateral (
     select * from atlas.jobs j
     where status = 'queued'
       and tenant_id = t.tenant_id
       and (:statuses is null or 'waiting' = any (:statuses) or coalesce(next_retry_at <= clock_timestamp(), true))
       and id < :before
       and (tenant_id, id) < (t.tenant_id, :before)
       and id >= (select id from floor)
       and (tenant_id, id) >= (t.tenant_id, (select id from floor))
       and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
     order by id desc limit :limit + :offset) j)
  union all
  (select j.* from waiting_tenants t
   cross join lateral (
     select * from atlas.jobs j
     where atlas.is_listed(j, 'waiting')
       -- opaque to the planner as well: it would prefer the index of times
       and case when next_retry_at > clock_timestamp() then true else false end
       and tenant_id = t.tenant_id
       and id < :before
       and (tenant_id, id) < (t.tenant_id, :before)
       and id >= (select id from floor)
       and (tenant_id, id) >= (t.tenant_id, (select id from floor))
       and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
     order by id desc limit :limit + :offset) j)
  union all
  (select j.* from failed_tenants t
   cross join lateral (
     select * from atlas.jobs j
     where atlas.is_listed(j, 'failed')
       and status::text = any (:statuses)
       and tenant_id = t.tenant_id
       and id < :before
       and (tenant_id, id) < (t.tenant_id, :before)
       and id >= (select id from floor)
       and (tenant_id, id) >= (t.tenant_id, (select id from floor))
       and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
     order by id desc limit :limit + :offset) j)
  union all
  (select j.* from dead_letter_tenants t
   cross join lateral (
     select * from atlas.jobs j
     where atlas.is_listed(j, 'dead_letter')
       and tenant_id = t.tenant_id
       and id < :before
       and (tenant_id, id) < (t.tenant_id, :before)
       and id >= (select id from floor)
       and (tenant_id, id) >= (t.tenant_id, (select id from floor))
       and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
     order by id desc limit :limit + :offset) j)
  union all
  (select j.* from correlation_tenants t
   cross join lateral (
     select * from atlas.jobs j
     where correlation_id = :correlation_id
       and tenant_id = t.tenant_id
       and (:statuses is null or atlas.shown_status(j) = any (:statuses))
       and (:parent_run_id::uuid is null or parent_run_id = :parent_run_id)
       and id < :before
       and (tenant_id, id) < (t.tenant_id, :before)
       and id >= (select id from floor)
       and (tenant_id, id) >= (t.tenant_id, (select id from floor))
       and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
     order by id desc limit :limit + :offset) j)
  union all
  -- the children of one run: no index has their order, and the key, which has it, is no way in
  (select * from (
   select * from atlas.jobs j
   where 'children' = any (:arms)
     and parent_run_id = :parent_run_id
     and (:tenant_id is null or tenant_id = :tenant_id)
     and (:statuses is null or atlas.shown_status(j) = any (:statuses))
     and id < :before
     and id >= (select id from floor)
     and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
   offset 0) j
   order by id desc limit :limit + :offset)
  union all
  -- the jobs of one group: no index has their order, and the key, which has it, is no way in
  (select * from (
   select * from atlas.jobs j
   where 'group' = any (:arms)
     and group_id = :group_id::uuid
     and (:tenant_id is null or tenant_id = :tenant_id)
     and (:statuses is null or atlas.shown_status(j) = any (:statuses))
     and (:correlation_id is null or correlation_id = :correlation_id)
     and (:parent_run_id is null or parent_run_id = :parent_run_id)
     and id < coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     and id >= (select id from floor)
     and atlas.job_matches(j, :job_type, :source, :created_after, :created_before, :finished_after, :finished_before,
       :worker_id, :host_id, :error_type, :error_text, :error_pattern)
   offset 0) j
   order by id desc limit :limit + :offset)
),
page as (
  select id, case when :most_bytes::bigint is not null then
    -- As they are stored, unless compressed: then they may be a hundred times as large.
    case when pg_column_compression(input) is null then pg_column_size(input) else octet_length(input::text) end
    + case when pg_column_compression(output) is null then pg_column_size(output) else octet_length(output::text) end
    + case when pg_column_compression(error) is null then pg_column_size(error) else octet_length(error::text) end end as bytes
  from found j
  order by id desc limit :limit offset :offset
)
select p.id, page_size, f.reached as floor
from floor f
left join (
  select p.id, count(*) over () as page_size, sum(bytes) over (order by id desc rows between unbounded preceding and 1 preceding) as bytes_before
  from page p
) p on bytes_before is null or bytes_before < :most_bytes
order by p.id desc;
