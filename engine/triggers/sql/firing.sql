-- Locks the gate, shared, and returns whether it is open, the time, and since when it has been so. SQL, because a function does it.
select is_open, now, online_since from atlas.begin_firing();
