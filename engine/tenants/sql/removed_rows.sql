-- Who asked for the removal of a tenant and why, and how many rows of each table went with it until now, by its audit rows: those
-- stay when the tenant is gone. Called by engine/tenants/removal.py. SQL, because it sums up what JSON columns hold.
select b.actor_id as asked_by, b.meta->>'reason' as reason, coalesce((
    select jsonb_object_agg(n.kind, n.rows)
    from (
      select v.kind, sum(v.rows) as rows
      from atlas.audit_log a
      cross join lateral (values
        ('jobs', (a.meta->>'jobs')::bigint),
        ('audit_private', (a.meta->>'personal_values')::bigint),
        (a.meta->>'kind', (a.meta->>'rows')::bigint)) v(kind, rows)
      where a.entity_id = :tenant_id::uuid::text
        and a.action in ('JOBS_PRUNED', 'TENANT_ROWS_REMOVED')
        and (a.epoch, a.id) > (b.epoch, b.id)
        and v.rows > 0
      group by v.kind) n), '{}')::text as rows
from atlas.audit_log b
where b.entity_id = :tenant_id::uuid::text
  and b.action = 'TENANT_REMOVAL_BEGAN'
order by b.epoch desc, b.id desc
limit 1;
