-- The keys of the newest jobs of a list, between two keys and at most p_limit. A list is what one index holds in the order of ids:
-- 'key' every job; of a tenant 'queued', 'ended', 'waiting', 'failed' (and canceled) and 'dead_letter', and 'correlation' those under a
-- correlation id; 'children' what a run started. 'ends' is what failed or was canceled in the order of its end; elsewhere the time is infinity.
-- 'active' is what is queued or runs among the newest jobs, behind p_active_after, by the key of all: for while the indexes of active jobs are slow.
-- 'running' and 'group' are in no order: all of them are read. A list of a tenant is empty without one.
-- Those in history: see history_keys.
-- The condition of 'waiting', 'failed' and 'dead_letter' is that of the function is_listed.
-- A single select without settings, so that it becomes a part of the statement: called by the function list_jobs alone, whose settings it needs.
create or replace function job_keys(
  p_list text, p_tenant_id uuid, p_correlation_id text, p_related_id uuid, p_before_at timestamptz, p_before uuid,
  p_after_at timestamptz, p_after uuid, p_limit int, p_active_after uuid
) returns table (at timestamptz, id uuid) language sql stable
begin atomic
  select k.at, k.id
  from (
    (select timestamptz 'infinity' as at, j.id from only jobs j
     where p_list = 'key' and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list = 'queued' and j.status = 'queued' and j.tenant_id = p_tenant_id and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list = 'ended' and j.status in ('succeeded', 'failed', 'canceled') and j.tenant_id = p_tenant_id and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list in ('waiting', 'failed', 'dead_letter') and is_listed(j, p_list) and j.tenant_id = p_tenant_id and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list = 'correlation' and j.correlation_id = p_correlation_id and j.tenant_id = p_tenant_id and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list = 'children' and j.parent_run_id = p_related_id and j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select j.finished_at, j.id from only jobs j
     where p_list = 'ends' and j.status in ('failed', 'canceled') and j.tenant_id = p_tenant_id
       and (j.finished_at, j.id) < (p_before_at, p_before) and (j.finished_at, j.id) > (p_after_at, p_after)
     order by j.finished_at desc, j.id desc limit p_limit)
    union all
    (select 'infinity', j.id from only jobs j
     where p_list = 'active' and j.id < p_before and j.id > greatest(p_after, p_active_after)
       and case when j.status in ('queued', 'running') then p_tenant_id is null or j.tenant_id = p_tenant_id else false end
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id
     from (select j.id from only jobs j where p_list = 'running' and j.status = 'running' and (p_tenant_id is null or j.tenant_id = p_tenant_id) offset 0) j
     where j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
    union all
    (select 'infinity', j.id
     from (select j.id from only jobs j where p_list = 'group' and j.group_id = p_related_id offset 0) j
     where j.id < p_before and j.id > p_after
     order by j.id desc limit p_limit)
  ) k;
end;
