-- A job that was lost so often fails and is quarantined.
create or replace function poison_after_losses() returns int language sql immutable parallel safe
return 3;
