-- The tables of history whose jobs are all older than they are kept, the oldest first. SQL, because it reads the catalogs on the database's clock.
select name, keep_days
from atlas.history_parts()
where day + keep_days + 1 <= (statement_timestamp() at time zone 'UTC')::date
order by day, name;
