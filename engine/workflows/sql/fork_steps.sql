-- The steps of a run in the order in which they began, as far as a fork looks at them: by the keys under which they are
-- shown, and without what they took and answered.
-- SQL, because Prisma would read what the steps took and answered, which may be large.
select case when s.branch = s.name || '/' then s.name else s.branch || s.name end as key, s.kind::text, s.started_at, s.finished_at
from atlas.workflow_steps s
where s.run_id = :run_id
order by s.started_at, s.branch, s.position;
