-- validating -> draft: the gate closed before they were decided. SQL, because its times are on the database's clock.
update atlas.intents
set status = 'draft', claimed_at = null, updated_at = clock_timestamp()
where id = any (:ids)
  and status = 'validating';
