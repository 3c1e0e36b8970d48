-- The only clock that counts. SQL, because it reads the database's clock.
select clock_timestamp();
