-- How many finished jobs of these tenants are in the hot table hours after their end, dead letters aside: those that the sweep has yet to move into history, and a few that
-- it leaves there. Where there are more than :most, about how many, by the statistics of their index. SQL, because the count is bounded along an index.
select greatest(c.jobs, case when c.jobs > :most::int then i.reltuples::bigint else 0 end)::bigint as jobs, c.jobs > :most as is_estimated
from (
  select count(*) as jobs
  from (
    select from unnest(:tenants::uuid[]) t(id)
    cross join lateral (
      select from only atlas.jobs j
      where j.tenant_id = t.id and j.status in ('succeeded', 'failed', 'canceled') and j.id < atlas.history_horizon(4) and j.dead_lettered_at is null
      order by j.id
      limit :most + 1) f
    limit :most + 1) f) c
cross join pg_class i
where i.oid = 'atlas.jobs_tenant_ended'::regclass;
