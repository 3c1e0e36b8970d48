-- Delete sessions a day after they ended or expired; across tenants, since they belong to the installation.
-- Called by engine/access/sessions.py. SQL, because it is a batch by the database's clock.
delete from atlas.sessions
where id = any (array(
  select id
  from atlas.sessions
  where expires_at < clock_timestamp() - interval '1 day'
  order by expires_at
  limit :most))
returning true;
