-- Ends an attempt, or records a step, in the caller's transaction. Called by engine/jobs/attempts/attempt_commit.py. SQL, because a function does it.
select atlas.commit_attempt(:worker::text, :jobs::text::jsonb, :step::text::jsonb);
