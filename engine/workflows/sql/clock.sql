-- The database's clock. SQL, because it reads the database's clock.
select clock_timestamp();
