-- Whether a job is in a list of rare ones, which listed_as names: word for word the condition of the index jobs_tenant_listed. Its names are
-- resolved when it is created, so that it needs no search_path of its own, which would keep it from becoming a part of the statement.
-- Called by engine/jobs/sql/list.sql, dead_letters.sql and dead_letter_groups.sql, and api/sql/metrics_depth.sql.
create or replace function is_listed(j jobs) returns boolean language sql immutable
return case when j.next_retry_at is null then j.status in ('failed', 'canceled') else true end;
