-- The members of one object that differ in another, each with its value before and after, as `changes` in the event of an edit. For edits
-- that are made in Python the module of changes does the same. Called by pause_target and switch_gate.
create or replace function value_changes(p_before jsonb, p_after jsonb) returns jsonb language sql immutable parallel safe
return (
  select coalesce(jsonb_object_agg(k, jsonb_build_object('before', p_before->k, 'after', p_after->k)), '{}')
  from jsonb_object_keys(p_before) k
  where coalesce(p_before->k, 'null') <> coalesce(p_after->k, 'null'));
