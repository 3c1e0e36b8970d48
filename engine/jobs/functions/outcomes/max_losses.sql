-- A job that was lost so often fails, whatever else ended its workers.
create or replace function max_losses() returns int language sql immutable parallel safe
return 10;
