-- Recurring functions with their last runs, by tenant and id; those after one, or the one of an id. Without a tenant it looks across
-- all (operators, and the programs that run them). SQL, because what is due is said by the database's clock.
select r.tenant_id, r.id, r.start_at, r.repeat_seconds, r.timeout_seconds, r.next_run_at,
  extract(epoch from r.next_run_at - clock_timestamp())::float8 as due_in, r.run_count,
  case when l.finished_at is null then l.worker_id end as worker_id, l.started_at as last_started_at,
  l.finished_at as last_finished_at, l.outcome::text as last_outcome, l.error as last_error
from atlas.recurring_jobs r
left join atlas.recurring_runs l on l.id = r.run_id
where (:tenant_id::uuid is null or r.tenant_id = :tenant_id)
  and (:id::text is null or r.id = :id)
  and (:after_tenant::uuid is null or (r.tenant_id, r.id) > (:after_tenant, :after_id::text))
order by r.tenant_id, r.id
limit :limit;
