-- The list of rare jobs in which a job is, if it is in one at all (is_listed): word for word the first key of the index jobs_tenant_listed. It
-- compares no status, for behind row-level security such a comparison would keep it from the index. Like is_listed it becomes a part of
-- the statement that calls it. Called by engine/jobs/sql/list.sql, dead_letters.sql and dead_letter_groups.sql, and
-- api/sql/metrics_depth.sql.
create or replace function listed_as(j jobs) returns text language sql immutable
return case when j.next_retry_at is not null then 'waiting' when j.dead_lettered_at is not null then 'dead_letter' else 'failed' end;
