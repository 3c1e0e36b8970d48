-- How long ago the jobs of all tenants were counted, in seconds, null if never in this cluster or without the
-- causes of dead letters; how long that took; how many jobs there are by the
-- counts; and how many rows the server has inserted less deleted since then that the counts do not know. Looks across tenants. SQL, because it reads the
-- server's statistics.
select case when (s.value->>'cluster')::bigint = atlas.system_identifier() and s.value ? 'causes'
       then extract(epoch from clock_timestamp() - (s.value->>'counted_at')::timestamptz)::float8 end as age,
  coalesce((s.value->>'seconds')::float8, 0) as seconds,
  k.jobs,
  ((select sum(pg_stat_get_tuples_inserted(t.id) - pg_stat_get_tuples_deleted(t.id))
    from (select 'atlas.jobs'::regclass::oid as id union all select i.inhrelid from pg_inherits i where i.inhparent = 'atlas.jobs'::regclass) t)
    - (s.value->>'changed')::bigint - (k.jobs - (s.value->>'jobs')::bigint))::bigint as unknown
from atlas.system_state s
cross join (select coalesce(sum(jobs), 0)::bigint as jobs from atlas.job_counts) k
where s.key = 'job_counts';
