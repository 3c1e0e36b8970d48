-- Runs that were parked for a pause which has ended become due. SQL, because a function does it.
select atlas.unpark_runs(:limit);
