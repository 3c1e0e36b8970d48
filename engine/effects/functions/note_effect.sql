-- refused or unknown -> the same, or refused -> unknown, with EFFECT_UNKNOWN: what an attempt learns between two calls, and what the next one must know of the provider, in
-- `detail`. p_accepted: a person accepts that a second effect may be made, so that the calls before count no longer. Fenced by worker, attempt and a live lease.
-- Returns whether it was changed.
-- Locks: job row, then the effect. Called by workers/email/mail_effect.py.
create or replace function note_effect(
  p_id uuid, p_worker text, p_job uuid, p_attempt int, p_state text, p_detail jsonb, p_accepted boolean, p_reason text
) returns boolean language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  is_leased constant boolean := effect_fence(p_worker, p_job, p_attempt);
  known effects;
  changed effects;
begin
  select e.* into known from only effects e where e.id = p_id for update;
  update only effects e
  set state = p_state, detail = p_detail, first_called_at = case when not p_accepted then e.first_called_at end
  where e.id = p_id and is_leased and e.state in ('refused', p_state) and p_state in ('refused', 'unknown')
  returning e.* into changed;
  if changed.state <> known.state then
    perform record_effect(changed, 'EFFECT_UNKNOWN', 'warn', 'system', p_worker, p_reason, '{}');
  end if;
  return changed.id is not null;
end $$;
