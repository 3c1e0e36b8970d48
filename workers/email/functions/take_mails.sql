-- What earlier attempts of a mail's job left: its effect at each provider, and the providers at which it holds a send slot. An effect that an attempt left intended
-- is unknown. An operator who retried the job after its last attempt, while it said that its outcome is unknown, accepts that a second mail may go out: their detail is
-- marked as ordered. `age`: seconds since the first call that counts. A person who settled that a mail was not sent has decided about its draft as well.
-- Returns nothing if the lease was lost. Locks: job row, then its effects. Called by workers/email/mail_effect.py.
create or replace function take_mails(p_job uuid, p_worker text, p_attempt int)
returns table (id uuid, provider text, state text, reference text, detail jsonb, age float8, has_slot boolean) language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  ended constant timestamptz := (select max(a.finished_at) from only job_attempts a where a.job_id = p_job);
  known effects;
  changed effects;
begin
  if not effect_fence(p_worker, p_job, p_attempt) then
    return;
  end if;
  perform import_mails(p_job, p_worker);
  if exists (select from only jobs j where j.id = p_job and j.error->>'outcome' = 'unknown') then
    for known in
      select e.* from only effects e
      where e.job_id = p_job and e.name like '%.mail' and e.settled_at is null and (e.state in ('intended', 'unknown') or (e.state = 'refused' and e.detail ? 'draft'))
        and exists (
          select from audit_log a
          where a.entity_id = p_job::text and a.action = 'JOB_RETRIED' and a.created_at > greatest(e.intended_at, e.ended_at, ended))
      for update
    loop
      update only effects e
      set state = case when e.state = 'intended' then 'unknown' else e.state end, ended_at = clock_timestamp(), detail = e.detail || '{"ordered": true}'
      where e.id = known.id
      returning e.* into changed;
      if known.state <> changed.state then
        perform record_effect(changed, 'EFFECT_UNKNOWN', 'warn', 'system', p_worker, '', '{}');
      end if;
    end loop;
  end if;
  return query
  select e.id, coalesce(e.provider, s.provider), case when e.state = 'intended' then 'unknown' else e.state end, e.reference, coalesce(e.detail, '{}'),
    case when e.state <> 'refused' then extract(epoch from clock_timestamp() - e.first_called_at)::float8 end, s.provider is not null
  from (
    select x.id, split_part(x.name, '.', 1) as provider, x.state, x.reference, x.first_called_at,
      case when x.settled_at is not null then x.detail - '{draft,discarding,refused}'::text[] else x.detail end as detail
    from only effects x where x.job_id = p_job and x.name like '%.mail') e
  full join (select m.provider from only mail_slots m where m.job_id = p_job) s on s.provider = e.provider;
end $$;
