-- The same as promote_due_since, whenever they fell due. Returns how many. Called by claim_leased and engine/jobs/lease.py.
create or replace function promote_due(p_limit int) returns int language sql volatile
set search_path from current as $$
  select promote_due_since(p_limit, '-infinity')
$$;
