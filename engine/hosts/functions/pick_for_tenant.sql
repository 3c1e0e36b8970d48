-- Due jobs of one tenant and some types, about four times as many as asked for: others may be claiming them.
-- Looks at the first jobs of the types and at the tenant's oldest; only where neither holds one, at everything of the types.
-- Locks nothing. Called by claim_leased.
create or replace function pick_for_tenant(p_tenant uuid, p_types text[], p_except text[], p_limit int) returns uuid[]
language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  seen constant int := 2000;
  types text[] := array(select t from unnest(p_types) t where t <> all (p_except));
  picked uuid[];
begin
  picked := array(
    select c.id from (
      select a.id, a.priority, a.created_at
      from unnest(types) y(job_type)
      cross join lateral (
        select j.id, j.tenant_id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit seen) a
      where a.tenant_id = p_tenant
      union
      select a.id, a.priority, a.created_at
      from unnest(types) y(job_type)
      cross join lateral (
        select j.id, j.priority, j.created_at from jobs j
        where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and j.careful
          and j.tenant_id = p_tenant and j.job_type = y.job_type
        order by j.priority desc, j.created_at limit p_limit) a
      union
      select b.id, b.priority, b.created_at
      from (select * from jobs j where j.tenant_id = p_tenant and j.status = 'queued' order by j.id limit seen) b
      where b.next_retry_at is null and b.host_id is null and b.job_type = any (types)) c
    order by c.priority desc, c.created_at limit 4 * p_limit);
  if cardinality(picked) = 0 then
    picked := array(
      select j.id from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = any (types) and j.tenant_id = p_tenant
      limit p_limit);
  end if;
  return picked;
end $$;
