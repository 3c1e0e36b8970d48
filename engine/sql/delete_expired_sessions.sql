-- Delete sessions a day after they ended or expired; across tenants, since they belong to the installation.
delete from atlas.sessions
where id = any (array(
  select id
  from atlas.sessions
  where expires_at < clock_timestamp() - interval '1 day'
  order by expires_at
  limit :most))
returning true;
