-- running -> canceled: what it has done stays done. Without a tenant it looks across all (operators). SQL, because the end is on
-- the database's clock, and guarded by the state.
update atlas.bulk_actions
set status      = 'canceled',
    canceled_by = :actor_id,
    finished_at = clock_timestamp(),
    updated_at  = clock_timestamp()
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and status = 'running'
returning id;
