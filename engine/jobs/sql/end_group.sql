-- open -> ended, with the counts of its members and the job that follows. The caller holds the row. SQL, because of the guard, and the
-- database's clock.
update atlas.job_groups
set ended_at     = clock_timestamp(),
    ended_counts = :counts::text::jsonb,
    then_job_id  = :then_job_id
where id = :id
  and ended_at is null
returning id;
