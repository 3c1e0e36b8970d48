-- The pauses in force, oldest first, with the names of what they are about; one, where :id names it. For a tenant its own and those
-- that hold everyone's. Called by engine/jobs/switches/pauses.py. SQL, because they end by the database's clock.
select p.id, p.kind, p.target,
  case p.kind when 'tenant' then n.slug when 'host' then h.name when 'trigger' then t.label else p.target end as name,
  p.tenant_id, n.slug as tenant, p.reason, p.paused_by as by, p.paused_at as since, p.until, p.version
from atlas.pauses p
left join atlas.tenants n on n.id = p.tenant_id
left join atlas.hosts h on p.kind = 'host' and h.id::text = p.target
left join atlas.job_triggers t on p.kind = 'trigger' and t.id::text = p.target
where (p.until is null or p.until > clock_timestamp())
  and (:id::uuid is null or p.id = :id)
  and (:tenant_id::uuid is null or p.tenant_id is null or p.tenant_id = :tenant_id)
order by p.paused_at, p.id;
