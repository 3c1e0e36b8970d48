-- Finished attempts -> metered, in the hour they finished. Looks across tenants: there is one audit log.
select atlas.meter_usage(:limit);
