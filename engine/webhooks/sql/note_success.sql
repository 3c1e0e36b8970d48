-- A webhook that failed -> one that works. Called by engine/webhooks/target.py. SQL, because a worker calls it, which does not
-- load the generated client.
update atlas.webhooks
set failing_since = null,
    last_error    = null
where id = :id
  and failing_since is not null;
