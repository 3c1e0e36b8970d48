-- Previews are forgotten after a day, but for those of actions that still run. Across tenants: Atlas's own programs do it. SQL, because their
-- age is on the database's clock. Called by engine/jobs/actions/bulk_previews.py.
delete from atlas.bulk_previews p
where p.as_of < clock_timestamp() - interval '1 day'
  and not exists (
    select from atlas.bulk_actions b
    where b.status = 'running'
      and b.selection->>'digest' = p.digest);
