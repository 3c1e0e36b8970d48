-- Groups, the newest first, or the one with this id, with their members by status. Without a tenant it looks across all (operators).
-- The members of a group that has ended are counted again only where it is requested by its id. SQL, because it counts by an index.
select g.id, g.tenant_id, g.name, g.total,
  case when g.ended_at is null or :id::uuid is not null then atlas.group_counts(g.id) else g.ended_counts end as counts,
  g.ended_counts, g.then_job->>'job_type' as then_type, g.then_job_id, g.created_by, g.created_at, g.ended_at
from atlas.job_groups g
where (:tenant_id::uuid is null or g.tenant_id = :tenant_id)
  and (:id is null or g.id = :id)
  and (:before::uuid is null or g.id < :before)
order by g.id desc
limit :limit;
