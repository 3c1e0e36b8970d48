-- Finished attempts -> metered, in the hour they finished. Looks across tenants: there is one audit log.
-- SQL, because a function does it.
select atlas.meter_usage(:limit);
