-- unknown -> done or refused, as a person says, with EFFECT_SETTLED; its job goes on. An effect that is intended by an attempt that runs no more is unknown too.
-- With p_by_another the person must be another than the one who created the job, and than those who arranged the trigger that started it: its creator is the
-- scheduler then. Without a tenant it looks across all (operators).
-- verdict: `settled`, `same_person`, or the state in which it cannot be settled; no row where it does not exist or its tenant moves.
-- Locks: job row, then the effect. Called by engine/effects/settle.py.
create or replace function settle_effect(
  p_id uuid, p_tenant uuid, p_state text, p_reference text, p_by_another boolean, p_actor_type text, p_actor_id text, p_meta jsonb
) returns table (verdict text, tenant_id uuid, job_id uuid, job_type text, created_by text, woken boolean) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  known effects;
  is_running boolean;
  requesters text[];
  requester text;
begin
  select e.* into known from effects e
  where e.id = p_id and (p_tenant is null or e.tenant_id = p_tenant) and e.tenant_id <> all (moving_tenants());
  if known.id is null then
    return;
  end if;
  perform from only jobs j where j.id = known.job_id for update;
  select e.* into known from effects e where e.id = p_id for update;
  select j.created_by, j.status = 'running' and j.attempt_count = known.attempt_no, array[j.created_by, t.created_by, t.edited_by]
  into created_by, is_running, requesters
  from jobs j
  left join job_triggers t on t.tenant_id = j.tenant_id and t.id = case
    when j.source in ('event', 'schedule') and j.source_ref ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then j.source_ref::uuid end
  where j.id = known.job_id;
  tenant_id := known.tenant_id;
  job_id := known.job_id;
  job_type := known.job_type;
  woken := false;
  if not (known.state = 'unknown' or (known.state = 'intended' and is_running is not true)) then
    verdict := known.state;
    return next;
    return;
  end if;
  if p_by_another then
    foreach requester in array array_remove(requesters, null) loop
      if is_same_person(known.tenant_id, requester, p_actor_id) then
        created_by := requester;
        verdict := 'same_person';
        return next;
        return;
      end if;
    end loop;
  end if;
  update effects e
  set state = p_state, reference = p_reference, ended_at = clock_timestamp(), settled_by = p_actor_id, settled_at = clock_timestamp()
  where e.id = p_id
  returning e.* into known;
  perform record_effect(known, 'EFFECT_SETTLED', 'info', p_actor_type, p_actor_id, '', p_meta);
  woken := wake_from_doubt(known.job_id);
  verdict := 'settled';
  return next;
end $$;
