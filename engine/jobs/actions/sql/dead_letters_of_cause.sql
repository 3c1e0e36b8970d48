-- The newest dead letters of a cause, of a tenant or of all (operators), as the meter has filed them. A job that has left since is left out.
-- The cause is computed as in count_dead_letters. Reads the index dead_letters_cause from its end, and each job by its key. SQL, because
-- it is bounded, and because Prisma cannot compare hashes. Called by engine/jobs/actions/bulk_previews.py.
select d.job_id as id
from atlas.dead_letters d
where d.cause = md5(jsonb_build_array(:job_type::text, :error_type::text, :error_pattern::text)::text)::uuid
  and (:tenant_id::uuid is null or d.tenant_id = :tenant_id)
  and exists (select from only atlas.jobs j where j.id = d.job_id and j.dead_lettered_at = d.dead_lettered_at)
order by d.job_id desc
limit :limit::int;
