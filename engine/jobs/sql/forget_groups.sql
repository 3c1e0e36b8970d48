-- Groups that ended ninety days ago and have no members left are forgotten; the audit log keeps what became of them. Across tenants:
-- Atlas's own programs do it. SQL, because their age is on the database's clock.
delete from atlas.job_groups g
where g.ended_at < clock_timestamp() - interval '90 days'
  and not exists (select from atlas.jobs j where j.group_id = g.id);
