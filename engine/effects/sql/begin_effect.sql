-- nothing, refused or, with :again, unknown -> intended, fenced by worker, attempt and lease. SQL, because a function does it.
select id, verdict, reference, age, since
from atlas.begin_effect(:id, :worker, :job_id, :attempt, :step, :name, :key, :detail::text::jsonb, :again);
