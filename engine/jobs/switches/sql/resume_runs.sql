-- Runs that an ended pause held become due. SQL, because a function does it.
select atlas.resume_runs(:limit);
