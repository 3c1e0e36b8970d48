-- From how many index entries on a count for limits takes long, beyond eight for each job that it finds. Called by count_limited_running and release_limit.
create or replace function slow_entries() returns int language sql immutable
return 1000;
