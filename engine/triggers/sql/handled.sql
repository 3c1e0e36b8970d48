-- Events -> looked at. The caller holds their rows.
update atlas.events
set handled_at = clock_timestamp()
where id = any (:ids)
  and handled_at is null;
