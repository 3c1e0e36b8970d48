-- Approvals, newest first. Without a tenant it looks across all (operators).
select id, tenant_id, run_id, kind::text, step, title, detail, encode(input_hash, 'hex') as input_hash, requested_by,
  status::text, expires_at, decided_at, decided_by, comment, created_at
from atlas.approvals
where (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:id::uuid is null or id = :id)
  and (:run_id::uuid is null or run_id = :run_id)
  and (:status::text is null or status = :status::text::atlas.approval_status)
  and (:before::uuid is null or id < :before)
order by id desc
limit :limit;
