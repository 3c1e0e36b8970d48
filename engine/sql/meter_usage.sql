-- Finished attempts -> metered, in the hour they finished. Looks across tenants: the account is one.
select atlas.meter_usage(:limit);
