-- pending -> approved or rejected, by a person. The caller holds the row.
update atlas.approvals
set status     = :status::text::atlas.approval_status,
    decided_at = clock_timestamp(),
    decided_by = :decided_by,
    comment    = :comment
where id = :id
  and status = 'pending';
