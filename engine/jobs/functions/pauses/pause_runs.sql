-- Pauses the picked runs whose workflow is paused and returns the rest. A paused run is not due until the pause ends, so that it adds
-- nothing to the cost of claims. Runs under the plan settings of claim_with_limits, which calls it.
create or replace function pause_runs(p_picked tid[]) returns tid[] language plpgsql volatile
set search_path from current as $$
begin
  update only jobs j
  set next_retry_at = (
    select paused_until(min(p.number)) from pauses p
    where p.kind = 'workflow' and p.target = j.input->>'workflow' and (p.tenant_id is null or p.tenant_id = j.tenant_id)
      and (p.until is null or p.until > clock_timestamp()))
  where j.ctid = any (p_picked) and case when j.status = 'queued' then j.job_type = 'ENGINE_RUN' else false end
    and exists (
      select from pauses p
      where p.kind = 'workflow' and p.target = j.input->>'workflow' and (p.tenant_id is null or p.tenant_id = j.tenant_id)
        and (p.until is null or p.until > clock_timestamp()));
  -- An updated row has moved, so its old address matches nothing any more.
  return array(select ctid from only jobs where ctid = any (p_picked) and case when status = 'queued' then next_retry_at is null else false end);
end $$;
