-- A job that was lost so often is claimed by a process that holds nothing else, so that no other job is lost with it.
create or replace function alone_after_losses() returns int language sql immutable parallel safe
return 2;
