-- Dead letters by cause, of a tenant or of all together (operators), the cause of the newest first, with how many dead letters there are in all.
-- The meter keeps the causes: see the function count_dead_letters. The sample is null where it is no dead letter any more.
-- SQL, because it reads what two tables keep.
select c.job_type, c.error_type, c.error_pattern, c.message, c.count, c.unknown_outcomes, c.first_at, c.last_at,
  (select d.job_id from atlas.dead_letters d where d.job_id = c.sample_id and d.cause = c.cause) as sample_id,
  (select sum(k.dead_letters)::int from atlas.job_counts k where :tenant_id::uuid is null or k.tenant_id = :tenant_id) as total
from atlas.dead_letter_causes c
where c.tenant_id = coalesce(:tenant_id::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  and c.count > 0
order by c.last_at desc
limit :limit::int;
