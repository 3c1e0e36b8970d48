-- The same as promote_due_since, whenever they fell due. Returns how many. Called by claim_leased and engine/jobs/lease.py.
create or replace function promote_due(p_limit int) returns int language plpgsql volatile
set search_path from current as $$
begin
  return promote_due_since(p_limit, '-infinity');
end $$;
