-- Finish what is done, then claim what is next: both or neither, in one commit. Either half may be empty.
-- See finish and claim. Called by engine/jobs/finish.py.
create or replace function turn(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8,
  p_id uuid[], p_attempt int[], p_status text[], p_output jsonb[], p_error jsonb[], p_delay float8[], p_used int[],
  p_cost int[], p_action text[], p_level text[], p_message text[], p_meta jsonb[], p_body bytea[], p_detail jsonb[],
  p_private jsonb[], p_alone boolean
) returns setof turn_row language plpgsql volatile
set search_path from current as $$
begin
  if cardinality(p_id) > 0 then
    return query
    select * from finish(p_worker, p_lease, p_id, p_attempt, p_status, p_output, p_error, p_delay, p_used, p_cost, p_action, p_level,
      p_message, p_meta, p_body, p_detail, p_private);
  end if;
  if p_slots + p_prefetch > 0 then
    return query select * from claim(p_worker, p_slots, p_prefetch, p_types, p_lease, p_alone);
  end if;
end $$;
