-- The tenants that have ready jobs of these types, from after p_after on in the order of their ids, p_most at most, but for p_without. Walks from tenant to
-- tenant along the index: as many probes as there are, whatever stands in the queue. Priority and age are in their order because the index by
-- tenant alone has jobs of all types. Called by pick_ready.
create or replace function ready_tenants(p_types text[], p_after uuid, p_most int, p_without uuid[]) returns uuid[] language sql volatile
set search_path from current as $$
  with recursive walk as (
    select 1 as nth, y.job_type, (
      select j.tenant_id from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = y.job_type and j.tenant_id > p_after
      order by j.tenant_id, j.priority desc, j.created_at limit 1) as tenant_id
    from unnest(p_types) y(job_type)
    union all
    select w.nth + (w.tenant_id <> all (p_without))::int, w.job_type, (
      select j.tenant_id from jobs j
      where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
        and j.job_type = w.job_type and j.tenant_id > w.tenant_id
      order by j.tenant_id, j.priority desc, j.created_at limit 1)
    from walk w
    where w.tenant_id is not null
      and w.nth + (w.tenant_id <> all (p_without))::int <= p_most)
  select array(select distinct w.tenant_id from walk w where w.tenant_id is not null and w.tenant_id <> all (p_without) order by w.tenant_id limit p_most)
$$;
