-- Events -> handled. The caller has locked their rows.
update atlas.events
set handled_at = clock_timestamp()
where id = any (:ids)
  and handled_at is null;
