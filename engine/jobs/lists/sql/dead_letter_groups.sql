-- Dead letters by cause, of a tenant or of all together (operators), the cause of the newest first, with how many dead letters there are in all.
-- The meter keeps the causes: see the function count_dead_letters. The sample is null where it is no dead letter any more.
-- SQL, because it reads what two tables keep.
select c.job_type, c.error_type, c.error_pattern, c.message, c.count, c.unknown_outcomes, c.first_at, c.last_at,
  -- The tenants with most of them: the key begins with the cause.
  (select coalesce(jsonb_agg(jsonb_build_object('tenant_id', m.tenant_id, 'count', m.count)), '[]')::text
   from (
     select t.tenant_id, t.count from atlas.dead_letter_causes t
     where t.cause = c.cause and t.count > 0 and t.tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
       and (:tenant_id::uuid is null or t.tenant_id = :tenant_id)
     order by t.count desc, t.tenant_id limit 3) m) as tenants,
  (select count(*)::int from atlas.dead_letter_causes t
   where t.cause = c.cause and t.count > 0 and t.tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
     and (:tenant_id::uuid is null or t.tenant_id = :tenant_id)) as tenant_count,
  (select d.job_id from atlas.dead_letters d where d.job_id = c.sample_id and d.cause = c.cause) as sample_id,
  (select sum(k.dead_letters)::int from atlas.job_counts k where :tenant_id::uuid is null or k.tenant_id = :tenant_id) as total
from atlas.dead_letter_causes c
where c.tenant_id = coalesce(:tenant_id::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  and c.count > 0
order by c.last_at desc
limit :limit::int;
