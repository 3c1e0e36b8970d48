-- The only clock that counts.
select clock_timestamp();
