-- finished -> finished, in history, among the next finished jobs of a tenant by id. SQL, because a function does it.
select looked, last, moved from atlas.move_to_history(:tenant_id, :after, :until, :limit, :keep_days, :whole);
