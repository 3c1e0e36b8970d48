-- The job: running -> queued until a person has answered; the effect: intended -> unknown. SQL, because a function does it.
select atlas.ask_about_effect(:id, :worker, :job_id, :attempt, :question, :reason);
