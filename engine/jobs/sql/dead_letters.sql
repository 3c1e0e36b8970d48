-- The oldest dead letters. Without a tenant it looks across all (operators).
select id
from jobs
where dead_lettered_at is not null
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
  and (:job_type::text is null or job_type = :job_type)
order by dead_lettered_at
limit :limit;
