-- The checkpoints that a fork reuses: all that another run had recorded when the step it is forked from began, but for
-- approvals, which are for one run, and what came after the first of them. SQL, because it reads and writes in one statement.
with cut as (
  select s.run_id, s.started_at
  from atlas.workflow_steps s
  where s.run_id = :source
    and :step in (s.branch || s.name, case when s.branch = s.name || '/' then s.name end)
  order by s.started_at, s.branch, s.position
  limit 1
)
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, attempts, started_at, finished_at, event_id, input,
  output, error)
select :target, s.branch, s.position, s.tenant_id, s.name, s.kind, s.status, s.attempts, s.started_at, s.finished_at, s.event_id, s.input,
  s.output, s.error
from atlas.workflow_steps s
join cut on cut.run_id = s.run_id
where s.status in ('succeeded', 'failed')
  and s.tenant_id = (select r.tenant_id from atlas.workflow_runs r where r.id = :target)
  and s.finished_at <= cut.started_at
  and s.branch <> 'undo/'
  and s.kind <> 'approval'
  and not exists (
    select from atlas.workflow_steps a where a.run_id = s.run_id and a.kind = 'approval' and a.finished_at <= s.started_at);
