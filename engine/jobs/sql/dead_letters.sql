-- The oldest dead letters that can be queued again: not those whose dedupe key an active job holds or whose server instance was
-- removed, behind which the others would never be reached, and not those whose outcome is unknown. Those are retried one by one: a retry may do again what was
-- done already. Without a tenant it looks across all (operators). SQL, because it leaves jobs out by other rows of the same
-- table.
select d.id
from only atlas.jobs d
where atlas.is_listed(d, 'dead_letter')
  and (:tenant_id::uuid is null or d.tenant_id = :tenant_id)
  and (:job_type::text is null or d.job_type = :job_type)
  and d.error->>'outcome' is distinct from 'unknown'
  and not exists (
    select from only atlas.jobs a
    where a.tenant_id = d.tenant_id
      and a.dedupe_hash = d.dedupe_hash
      and a.status in ('queued', 'running'))
  and (d.server_instance_id is null or exists (select from atlas.server_instances s where s.id = d.server_instance_id))
order by d.id
limit :limit;
