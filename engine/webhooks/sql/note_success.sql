-- A webhook that failed -> one that works. Called by engine/webhooks/target.py.
update atlas.webhooks
set failing_since = null,
    last_error    = null
where id = :id
  and failing_since is not null;
