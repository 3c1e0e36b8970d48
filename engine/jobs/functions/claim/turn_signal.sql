-- A row of a claim that is no job: its kind, and what it is about. See the type turn_kind. Becomes a part of the statement, as is_ready.
-- Called by claim, claim_with_limits, claim_leased, finish and turn.
create or replace function turn_signal(p_kind turn_kind, p_id uuid default null, p_tenant uuid default null, p_number int default null)
returns turn_row language sql immutable
return row(p_kind, p_id, p_tenant, null, null, p_number, null, null, null, null, null, null, null, null, null, null, null)::turn_row;
