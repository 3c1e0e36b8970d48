-- Events -> handled. The caller has locked their rows. SQL, because its times are on the database's clock.
update atlas.events
set handled_at = clock_timestamp()
where id = any (:ids)
  and handled_at is null;
