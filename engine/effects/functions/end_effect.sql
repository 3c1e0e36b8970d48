-- intended or unknown -> done, refused or unknown, as the attempt that called it last says, with the event of that name. The row is the fence: an attempt that lost
-- its lease still knows what it did, until another attempt has begun the effect again; a job that waits for a person's answer then goes on.
-- p_found: the attempt did not call, the provider was asked about an earlier call. What an attempt reports too late is added to other_references, with EFFECT_REPEATED unless the reference is the same: it may have been made twice.
-- Returns `ended`, `late` (recorded, and the lease is lost) or `taken` (another attempt has begun it again).
-- Locks: job row, then the effect. Called by engine/effects/ledger.py.
create or replace function end_effect(
  p_id uuid, p_worker text, p_job uuid, p_attempt int, p_state text, p_reference text, p_reason text, p_found boolean
) returns text language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  is_leased constant boolean := effect_fence(p_worker, p_job, p_attempt);
  changed effects;
begin
  -- Most effects are not in history, whose tables each of them would lock.
  update only effects e
  set state = p_state, reference = p_reference, ended_at = clock_timestamp()
  where e.id = p_id and awaits_report(e, p_attempt, p_state, p_found and is_leased)
  returning e.* into changed;
  if changed.id is null and not exists (select from only effects e where e.id = p_id) then
    update effects e
    set state = p_state, reference = p_reference, ended_at = clock_timestamp()
    where e.id = p_id and awaits_report(e, p_attempt, p_state, false)
    returning e.* into changed;
  end if;
  if changed.id is not null then
    perform record_effect(changed, 'EFFECT_' || upper(p_state), case p_state when 'done' then 'info' else 'warn' end, 'system', p_worker,
      coalesce(p_reason, ''), jsonb_build_object('late', nullif(not is_leased, false), 'found', nullif(p_found, false)));
    if not is_leased and p_state <> 'unknown' then
      perform wake_from_doubt(p_job);
    end if;
    return case when is_leased then 'ended' else 'late' end;
  end if;
  if p_state = 'done' then
    update effects e
    set other_references = e.other_references || coalesce(p_reference, ''),
        -- A later attempt was told that it is not made. It is.
        state = case when e.state = 'refused' then 'unknown' else e.state end
    where e.id = p_id and (p_reference is null or (e.reference is distinct from p_reference and p_reference <> all (e.other_references)))
    returning e.* into changed;
    if changed.id is not null then
      perform record_effect(changed, 'EFFECT_REPEATED', 'error', 'system', p_worker,
        format('Attempt %s made %s too.', p_attempt, changed.name), jsonb_build_object('other_reference', p_reference, 'late_attempt', p_attempt));
    end if;
  end if;
  return 'taken';
end $$;
