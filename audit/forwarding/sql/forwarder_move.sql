-- Moves a forwarder of the audit log from one place to the next; no row where it is not at the first any more. Called by
-- audit/forwarding/places.py. SQL, because it changes one value under a condition on it.
update atlas.system_state
set value = value || jsonb_build_object('seal', :to_seal::bigint, 'rows', :to_rows::bigint, 'sent', (value->>'sent')::bigint + :sent::bigint),
    updated_at = clock_timestamp()
where key = :key
  and (value->>'seal')::bigint = :seal::bigint
  and (value->>'rows')::bigint = :rows::bigint
returning key;
