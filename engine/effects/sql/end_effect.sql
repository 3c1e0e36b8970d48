-- intended or unknown -> done, refused or unknown. SQL, because a function does it.
select atlas.end_effect(:id, :worker, :job_id, :attempt, :state, :reference, :reason, :found);
