-- pending -> approved or rejected, by another person than the one who asked. The caller holds the row and has checked the rest:
-- no row means that both count as one person. SQL, because its guard is a function.
update atlas.approvals
set status     = :status::text::atlas.approval_status,
    decided_at = clock_timestamp(),
    decided_by = :decided_by,
    comment    = :comment
where id = :id
  and status = 'pending'
  and not atlas.is_same_person(tenant_id, requested_by, :decided_by)
returning id;
