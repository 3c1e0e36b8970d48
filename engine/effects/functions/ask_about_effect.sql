-- running -> queued until a person has answered, and the effect intended -> unknown, with EFFECT_UNKNOWN and its question. No retry is spent. Fenced by worker, attempt and
-- a live lease. Where the doubt was settled meanwhile the job is due immediately. Returns `asked`, `lost` or `canceled` (the job was asked to stop).
-- Locks: job row, then the effect. Called by engine/effects/ledger.py.
create or replace function ask_about_effect(
  p_id uuid, p_worker text, p_job uuid, p_attempt int, p_question text, p_reason text
) returns text language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  refused text;
  changed effects;
begin
  perform from only jobs j where j.id = p_job for update;
  select f.kind::text into refused
  from finish(p_worker, null, array[p_job], array[p_attempt], array['queued'], null, null, array[1.0]::float8[], null, null, null, null, null,
    null, null, array['{"status": "canceled", "outcome": "unknown"}']::jsonb[], null) f limit 1;
  if refused is not null then
    return case refused when 'cancel_requested' then 'canceled' else 'lost' end;
  end if;
  update only effects e set state = 'unknown', ended_at = coalesce(e.ended_at, clock_timestamp())
  where e.id = p_id and e.state in ('intended', 'unknown')
  returning e.* into changed;
  update only jobs j set next_retry_at = case when changed.id is not null then '9999-12-31 00:00:00+00'::timestamptz end where j.id = p_job;
  if changed.id is not null then
    perform record_effect(changed, 'EFFECT_UNKNOWN', 'warn', 'system', p_worker, p_question, jsonb_build_object('reason', nullif(p_reason, '')));
  end if;
  return 'asked';
end $$;
