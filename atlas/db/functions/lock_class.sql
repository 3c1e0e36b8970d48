-- The number of a class of advisory locks. The schema's name is part of it, so that two installations in one database do not
-- wait for each other.
--
-- Locks are taken in this order, then job rows in ascending id, then everything else, then audit rows:
--   gate, 0                       shared by every claim, exclusive for the switch
--   worker, hash of the worker    shared by its claims and step records, exclusive for the reaper
--   event, hash of tenant, name   shared by those who publish the event, exclusive for runs that begin to wait for it
--   host, hash of the host        one claim of a host at a time
--   limits, 0                     one claim at a time counts limits; only tried, so it may come after a row's lock
--   limit, hash of the limit      one claim at a time releases the jobs of a rate or a key; only tried, like the one before
--   history, 0                    shared by those who bring jobs back from history, exclusive for a move into it
-- The others are never held together with these:
--   seal, 0                       one sealer, and the beginning of an epoch
--   policy, hash of the tenant    one decision at a time where policy rules count
--   metering, 0                   one meter of the audit log, and one count of the jobs; a tenant's removal takes it after the tenant's row
--   webhooks, 0                   one reader of the audit log makes the deliveries of webhooks
--   quota, hash of kind, owner    one addition of a kind at a time where a quota is counted; a move of a server takes it first
--   timezone, hash of the tenant  shared by those who edit its schedules, exclusive for a change of its time zone
create or replace function lock_class(p_name lock_name) returns int language sql immutable parallel safe
set search_path from current as $$
  select hashtext(current_schema()) & -16 | case p_name
    when 'gate' then 0
    when 'worker' then 1
    when 'limits' then 2
    when 'seal' then 3
    when 'event' then 4
    when 'policy' then 5
    when 'metering' then 7
    when 'timezone' then 8
    when 'host' then 9
    when 'quota' then 10
    when 'webhooks' then 11
    when 'limit' then 12
    when 'history' then 13
  end
$$;
