-- nothing -> a group, in the transaction that enqueues its jobs; one without jobs has ended. SQL, because of the database's clock.
insert into atlas.job_groups (id, tenant_id, name, total, then_job, actor_type, created_by, ended_at, ended_counts, then_job_id)
values (:id, :tenant_id, :name, :total, :then_job::text::jsonb, :actor_type::text::atlas.actor_type, :created_by,
  case when :ended_counts::text is not null then clock_timestamp() end, :ended_counts::text::jsonb, :then_job_id);
