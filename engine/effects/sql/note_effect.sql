-- What an attempt learns of an effect between two calls. SQL, because a function does it.
select atlas.note_effect(:id, :worker, :job_id, :attempt, :state, :detail::text::jsonb, :accepted, :reason);
