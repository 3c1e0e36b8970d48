-- Whether the report of an attempt ends an effect: nothing else has ended it, and the attempt was the last to call it, or has asked the provider.
-- Called by end_effect.
create or replace function awaits_report(effect effects, p_attempt int, p_state text, p_has_asked boolean) returns boolean language sql immutable
return ((effect).attempt_no = p_attempt or p_has_asked) and (effect).settled_at is null
  and ((effect).state = 'intended' or ((effect).state = 'unknown' and p_state <> 'unknown'));
