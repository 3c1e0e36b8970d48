-- The time. SQL, because the database's clock is the only clock.
select clock_timestamp();
