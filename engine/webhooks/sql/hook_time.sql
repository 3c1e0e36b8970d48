-- How many seconds ago a timestamp of seconds since 1970 was, by the database's clock. Called by engine/webhooks/inbound.py.
-- SQL, because it reads the database's clock.
select extract(epoch from clock_timestamp()) - :timestamp::float8;
