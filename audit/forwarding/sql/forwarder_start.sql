-- The last seal, where a forwarder begins that sends no older rows. Called by audit/forwarding/places.py. SQL, because it is an aggregate.
select coalesce(max(n), 0) from atlas.audit_seal;
