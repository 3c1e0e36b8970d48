-- Whether a function needs no further run for this due time: one ended by itself, or as many were lost as make a job poison.
-- Called by finish_recurring and engine/schedules/sql/save_recurring.sql.
create or replace function recurring_is_over(p_tenant uuid, p_id text, p_due timestamptz) returns boolean language sql stable
set search_path from current as $$
  select coalesce(bool_or(outcome in ('succeeded', 'failed', 'timeout')), false)
    or count(*) filter (where outcome = 'lost') >= poison_after_losses()
  from recurring_runs
  -- The second condition is there for the index.
  where tenant_id = p_tenant and recurring_id = p_id and started_at >= p_due and due_at = p_due
$$;
