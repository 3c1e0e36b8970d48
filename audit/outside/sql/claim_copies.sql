-- Makes this process the one that copies checkpoints for a while; no row: another did so less than :pause ago. Called by audit/outside/copy.py.
-- SQL, because it is guarded on the database's clock.
insert into atlas.system_state as s (key, value, updated_by)
values ('checkpoint_copies', '{}', :by)
on conflict (key) do update
set updated_at = clock_timestamp(),
    updated_by = excluded.updated_by
where s.updated_at <= clock_timestamp() - :pause::interval
returning key;
