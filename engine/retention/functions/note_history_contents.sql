-- Adds jobs that moved into a part of history to what is stored of it: of each tenant its oldest and newest id there, and how many jobs, attempts and steps.
-- p_ids are in ascending order, with the tenant and the status of each; p_attempts and p_steps name the job of each attempt and step that moved. The caller
-- runs as the owner of the tables. Called by move_to_history.
create or replace function note_history_contents(
  p_part text, p_ids uuid[], p_tenants uuid[], p_statuses job_status[], p_attempts uuid[], p_steps uuid[]
) returns void language plpgsql volatile
set search_path from current as $$
begin
  insert into history_contents as c (part, tenant_id, min_id, max_id, jobs, failed, canceled, attempts, steps)
  select p_part, j.tenant_id, (array_agg(j.id order by j.nth))[1], (array_agg(j.id order by j.nth desc))[1], count(*),
    count(*) filter (where j.status = 'failed'), count(*) filter (where j.status = 'canceled'), coalesce(sum(a.count), 0), coalesce(sum(s.count), 0)
  from unnest(p_ids, p_tenants, p_statuses) with ordinality j(id, tenant_id, status, nth)
  left join (select u.id, count(*) from unnest(p_attempts) u(id) group by u.id) a on a.id = j.id
  left join (select u.id, count(*) from unnest(p_steps) u(id) group by u.id) s on s.id = j.id
  group by j.tenant_id
  order by j.tenant_id
  on conflict (part, tenant_id) do update
  set min_id = least(c.min_id, excluded.min_id), max_id = greatest(c.max_id, excluded.max_id), jobs = c.jobs + excluded.jobs,
    failed = c.failed + excluded.failed, canceled = c.canceled + excluded.canceled, attempts = c.attempts + excluded.attempts,
    steps = c.steps + excluded.steps;
  -- A bound that is not known stays unknown.
  insert into history_bounds as b (part, min_id, max_id)
  values (p_part, p_ids[1], p_ids[cardinality(p_ids)])
  on conflict (part) do update
  set min_id = case when b.min_id < excluded.min_id then b.min_id when b.min_id is not null then excluded.min_id end,
    max_id = greatest(b.max_id, excluded.max_id)
  where b.min_id > excluded.min_id or b.max_id < excluded.max_id;
end $$;
