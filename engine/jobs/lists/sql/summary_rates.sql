-- Events of all jobs in the last minutes, for operators: read from the end of the audit log, at most :most rows;
-- minutes is the time that those cover. SQL, because it counts by the database's clock, in a bounded read.
with recent as (
  select action, created_at from atlas.audit_log
  order by epoch desc, xid desc, id desc limit :most::int
),
counted as (
  select action, created_at from recent where created_at > clock_timestamp() - :minutes::int * interval '1 minute'
)
select action, count(*)::int as count,
  greatest(0.05, least(:minutes, extract(epoch from clock_timestamp() - (
    select case when count(*) < :most then null else min(created_at) end from counted)) / 60))::float8 as minutes
from counted
group by action;
