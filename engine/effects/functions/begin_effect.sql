-- nothing or refused -> intended, with EFFECT_INTENDED, before the provider is called. With p_again also unknown -> intended: the provider was asked, or honors
-- the key. Fenced by worker, attempt and a live lease.
-- verdict: `call` (it is intended now), `done`, `lost` (the lease), `busy` (this attempt calls it at this moment), or `doubt`: an earlier call may have been made.
-- age and since: seconds since the first call that may have been made, and since the last.
-- Locks: job row, then the effect. Called by engine/effects/ledger.py.
create or replace function begin_effect(
  p_id uuid, p_worker text, p_job uuid, p_attempt int, p_step text, p_name text, p_key text, p_detail jsonb, p_again boolean,
  out id uuid, out verdict text, out reference text, out age float8, out since float8
) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  known effects;
begin
  if not effect_fence(p_worker, p_job, p_attempt) then
    verdict := 'lost';
    return;
  end if;
  insert into effects (id, tenant_id, job_id, job_type, step, name, key, attempt_no, detail, first_called_at)
  select p_id, j.tenant_id, j.id, j.job_type, p_step, p_name, p_key, p_attempt, p_detail, clock_timestamp() from only jobs j where j.id = p_job
  on conflict (job_id, step, name, key) do nothing
  returning * into known;
  if known.id is not null then
    verdict := 'call';
  else
    select e.* into known from only effects e where e.job_id = p_job and e.step = p_step and e.name = p_name and e.key = p_key for update;
    verdict := case when known.state = 'done' then 'done'
                    when known.state = 'intended' and known.attempt_no = p_attempt
                      -- the response to this very call was lost
                      then case when known.id = p_id then 'ours' else 'busy' end
                    when known.state = 'refused' or p_again then 'call'
                    else 'doubt' end;
    if verdict = 'call' then
      update only effects e
      set state = 'intended', attempt_no = p_attempt, detail = p_detail, intended_at = clock_timestamp(), ended_at = null, reference = null,
          settled_by = null, settled_at = null,
          first_called_at = case when e.state <> 'refused' then coalesce(e.first_called_at, clock_timestamp()) else clock_timestamp() end
      where e.id = known.id
      returning e.* into known;
    end if;
  end if;
  if verdict = 'call' then
    perform record_effect(known, 'EFFECT_INTENDED', 'info', 'system', p_worker, '', '{}');
  end if;
  if verdict = 'ours' then
    verdict := 'call';
  end if;
  id := known.id;
  reference := known.reference;
  age := extract(epoch from clock_timestamp() - coalesce(known.first_called_at, known.created_at));
  since := extract(epoch from clock_timestamp() - known.intended_at);
end $$;
