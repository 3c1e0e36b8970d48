-- Up to three published job types whose names are most like this one, by the pairs of letters that both have, for a refusal that
-- says what may have been meant. Called by engine/sql/admit.sql and by enqueue.
create or replace function near_types(p_name text) returns text[] language sql stable parallel safe
set search_path from current as $$
  with names as (
    select y.key as name from job_types y
    union
    select unnest(builtin_types())
  ),
  pairs as (
    select distinct n.name, substr(lower(n.name), g, 2) as pair
    from (select name from names union select p_name) n, generate_series(1, length(n.name) - 1) g
  ),
  likeness as (
    select p.name, 2.0 * count(*) filter (where p.pair in (select w.pair from pairs w where w.name = p_name))
      / (count(*) + (select count(*) from pairs w where w.name = p_name)) as share
    from pairs p
    where p.name <> p_name
    group by p.name
  )
  select array(select l.name from likeness l where l.share >= 0.4 order by l.share desc, l.name limit 3)
$$;
