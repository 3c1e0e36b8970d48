-- The record of a bulk action whose next step is due, with the next jobs of its set if it has one. No row: it is not due, or has ended. Not
-- locked: step_bulk_action takes the step if the record is still so. Names no tenant: the record has the one whose jobs are changed. Called by
-- engine/jobs/actions/bulk_actions.py. SQL, because what is due is said by the database's clock.
select b.id, b.tenant_id, b.action, b.selection, b.rate_per_second, b.position, b.list_cursor, b.created_at,
  p.ids[b.position + 1:b.position + :limit::int] as previewed, coalesce(cardinality(p.ids), 0) as preview_count
from atlas.bulk_actions b
left join atlas.bulk_previews p on p.digest = b.selection->>'digest'
where b.id = :id
  and b.status = 'running'
  and b.next_step_at <= clock_timestamp()
  and (b.tenant_id is null or b.tenant_id <> all (atlas.moving_tenants()));
