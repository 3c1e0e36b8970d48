-- Finish what is done, then claim what is next: both or neither, in one commit. Either half may be empty. Before, tenants that compete
-- are charged with what they have used. See finish, claim and charge_tenants. Called by engine/jobs/finish.py.
create or replace function turn(
  p_worker text, p_slots int, p_prefetch int, p_types text[], p_lease float8,
  p_id uuid[], p_attempt int[], p_status text[], p_output jsonb[], p_error jsonb[], p_delay float8[], p_used int[],
  p_cost int[], p_action text[], p_level text[], p_message text[], p_meta jsonb[], p_body bytea[], p_detail jsonb[],
  p_private jsonb[], p_alone boolean, p_fair boolean, p_after uuid, p_tenants uuid[], p_seconds float8[], p_jobs int[], p_resume jsonb default null
) returns setof turn_row language plpgsql volatile
set search_path from current as $$
#variable_conflict use_column
begin
  if cardinality(p_tenants) > 0 then
    return query
    select (turn_signal('not_charged', p_tenant => c.id)).* from charge_tenants(p_tenants, p_seconds, p_jobs) c(id);
  end if;
  if cardinality(p_id) > 0 then
    return query
    select * from finish(p_worker, p_lease, p_id, p_attempt, p_status, p_output, p_error, p_delay, p_used, p_cost, p_action, p_level,
      p_message, p_meta, p_body, p_detail, p_private);
  end if;
  if p_slots + p_prefetch > 0 then
    return query select * from claim(p_worker, p_slots, p_prefetch, p_types, p_lease, p_alone, p_fair, p_after, null, p_resume);
  end if;
end $$;
