-- a trigger -> deleted: it fires no more and is shown no more, and what it fired still names it.
update atlas.job_triggers
set deleted_at   = clock_timestamp(),
    is_enabled   = false,
    next_fire_at = null,
    updated_at   = clock_timestamp()
where id = :id
  and deleted_at is null
returning id;
