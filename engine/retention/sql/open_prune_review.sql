-- The newest request to remove old rows of the audit log that is pending or approved, has not expired, and whose rows are still there. It belongs
-- to the installation, so no tenant is named. Called by engine/retention/audit_prune.py. SQL, because it compares on the database's clock.
select a.id, (a.detail->>'through_seal')::bigint as through_seal, a.status::text, a.requested_by, a.decided_by, a.expires_at
from atlas.approvals a
where a.run_id = :id
  and a.status in ('pending', 'approved')
  and a.expires_at > clock_timestamp()
  and (a.detail->>'through_seal')::bigint > coalesce((select max(p.through_seal) from atlas.audit_pruned p), 0)
order by a.created_at desc
limit 1;
