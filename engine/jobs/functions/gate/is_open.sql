-- Whether this row says that the gate is open: `exists (select from system_state s where is_open(s))`. Becomes a part of the statement, as is_ready.
-- Called by claim, may_claim, record_steps, and by statements that look at the gate.
create or replace function is_open(s system_state) returns boolean language sql immutable
return s.key = 'atlas_online' and s.value->>'online' = 'true';
