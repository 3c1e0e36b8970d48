-- The running number of a tenant's last row under a signed checkpoint, 0 if it has none. Called by audit/verification/verify_tenant.py. SQL, because it
-- reads back along the tenant's seals to the first that is signed.
select coalesce((
  select t.first_number + t.count - 1
  from atlas.audit_seal_tenant t
  join atlas.audit_seal s on s.n = t.n
  where t.tenant_id = :tenant_id
    and s.size <= (select max(size) from atlas.audit_checkpoint)
  order by t.n desc
  limit 1), 0);
