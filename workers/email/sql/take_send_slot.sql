-- Reserves a send slot: the seconds until it. SQL, because a function does it.
select atlas.take_send_slot(
  :job_id, :worker, :attempt, :provider, :buckets::text[], :per_minute::int[], :at_once::int[], :early);
