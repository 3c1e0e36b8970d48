-- finished -> finished, in history, among the next jobs of these tenants by id. SQL, because a function does it.
select next_id, moved from atlas.move_to_history(:tenants::uuid[], :start, :limit, :keep_days, :whole);
