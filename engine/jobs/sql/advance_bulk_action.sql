-- A step of a bulk action is done: running -> running, or -> done where nothing is left. The caller holds the record. SQL, because
-- it adds to the counts, and the next step's time is on the database's clock.
update atlas.bulk_actions b
set position     = :position,
    list_cursor  = :list_cursor,
    changed      = b.changed + :changed,
    passed_over  = b.passed_over + :passed_over,
    verdicts     = (
      select coalesce(jsonb_object_agg(v.key, v.count), '{}')
      from (
        select e.key, sum(e.value::int) as count
        from (select * from jsonb_each_text(b.verdicts) union all select * from jsonb_each_text(:verdicts::text::jsonb)) e
        group by e.key) v),
    status       = case when :is_last::boolean then 'done' else 'running' end,
    finished_at  = case when :is_last then clock_timestamp() end,
    next_step_at = clock_timestamp() + make_interval(secs => :rest::float8),
    updated_at   = clock_timestamp()
where b.id = :id
returning changed, passed_over, verdicts;
