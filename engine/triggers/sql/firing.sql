-- Takes the gate, shared, and answers whether it is open, the time, and since when it has been as it is.
select is_open, now, online_since from atlas.begin_firing();
