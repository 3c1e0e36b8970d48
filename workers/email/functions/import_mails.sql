-- mail_ledger -> effects and mail_slots, for a mail that a program of the release before has begun: each entry once, with the event of its state. It goes with
-- mail_ledger, one release later. Locks: none; the caller holds the job's row. Called by take_mails.
create or replace function import_mails(p_job uuid, p_worker text) returns void language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  entry mail_ledger;
  made effects;
begin
  for entry in
    select m.* from only mail_ledger m
    where m.job_id = p_job and not exists (select from only effects e where e.job_id = p_job and e.name = m.provider || '.mail')
  loop
    if entry.slot_at is not null then
      insert into mail_slots (job_id, provider, tenant_id, pace, slot_at)
      values (p_job, entry.provider, entry.tenant_id, coalesce(entry.slot_pace, ''), entry.slot_at)
      on conflict do nothing;
      update only mail_ledger m set slot_at = null where m.job_id = p_job and m.provider = entry.provider;
    end if;
    insert into effects (id, tenant_id, job_id, job_type, name, key, state, attempt_no, reference, detail, created_at, intended_at, ended_at, first_called_at)
    select new_id(), entry.tenant_id, p_job, j.job_type, entry.provider || '.mail', p_job::text,
      case when entry.state = 'sent' then 'done' when entry.state in ('drafted', 'discarding', 'draft_ordered') then 'refused' else 'unknown' end,
      entry.attempt_no, entry.message_id,
      jsonb_strip_nulls(jsonb_build_object('sender', entry.sender, 'draft', entry.draft_id, 'discarding', nullif(entry.state = 'discarding', false),
        'ordered', nullif(entry.state in ('ordered', 'draft_ordered'), false))),
      entry.created_at, coalesce(entry.first_requested_at, entry.updated_at), entry.updated_at,
      coalesce(entry.first_requested_at, entry.created_at)
    from only jobs j
    where j.id = p_job and entry.state <> 'begun'
    returning * into made;
    if made.id is not null then
      perform record_effect(made, 'EFFECT_' || upper(made.state), 'info', 'system', p_worker, 'From the mail ledger.', '{}');
    end if;
  end loop;
end $$;
