-- Removes a forwarder of the audit log. Called by audit/forwarding/places.py. SQL, because it returns whether there was one.
delete from atlas.system_state where key = :key returning key;
