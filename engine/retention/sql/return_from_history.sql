-- Jobs of a tenant that history holds for another number of days than it keeps its jobs for now, or whose attempts and steps it keeps for less, go back to the others. SQL, because a function does it.
select atlas.return_from_history(:tenant_id, :keep_days, :limit, :whole);
