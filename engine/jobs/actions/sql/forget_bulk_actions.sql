-- Bulk actions that ended ninety days ago are forgotten; the audit log keeps what they did. Across tenants: Atlas's own programs do
-- it. SQL, because their age is on the database's clock.
delete from atlas.bulk_actions
where status <> 'running'
  and finished_at < clock_timestamp() - interval '90 days';
