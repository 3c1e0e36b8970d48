-- What an imported tenant needs beside its rows. Called by engine/tenants/move_import.py. SQL, because a function does it.
select atlas.settle_import(:tenant_id, :definitions::text::jsonb, :workflows::text::jsonb, :actor_type::text, :actor_id::text, :meta::text::jsonb);
