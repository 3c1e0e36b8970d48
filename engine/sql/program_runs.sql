-- A scheduler or an API runs, of this version. Those of which nothing was heard for a day are forgotten. SQL, because the database's clock
-- says when.
with forgotten as (
  delete from atlas.running_programs where seen_at < clock_timestamp() - interval '1 day' and id <> :id)
insert into atlas.running_programs (id, kind, version, hostname)
values (:id, :kind, :version, :hostname)
on conflict (id) do update set seen_at = clock_timestamp();
