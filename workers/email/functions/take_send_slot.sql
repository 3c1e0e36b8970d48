-- Reserves a send slot for a mail in its buckets and returns the seconds until it, or null if the job is another worker's. The caller waits for one that comes within
-- `p_early` seconds, which uses it up; for others the job comes back. A reserved slot that was missed by far is not used later, when others would be missed too: it
-- is exchanged for a new one, or for one that an ended mail leaves behind.
-- Locks: job row, then rows of mail_slots and mail_pace. Called by workers/email/pace.py.
create or replace function take_send_slot(
  p_job uuid, p_worker text, p_attempt int, p_provider text, p_buckets text[], p_per_minute int[], p_at_once int[], p_early float8
) returns float8 language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  reserved timestamptz;
  slot timestamptz;
  wait float8;
begin
  if not effect_fence(p_worker, p_job, p_attempt) then
    return null;
  end if;
  select m.slot_at into reserved from only mail_slots m where m.job_id = p_job and m.provider = p_provider for update;
  slot := reserved;
  if slot is null or slot < clock_timestamp() - interval '10 seconds' then
    slot := coalesce(mail_freed_slot(p_buckets), mail_slot(p_buckets, p_per_minute, p_at_once));
  end if;
  wait := greatest(0, extract(epoch from slot - clock_timestamp()));
  if wait > p_early and slot is distinct from reserved then
    insert into mail_slots (job_id, provider, tenant_id, pace, slot_at)
    select j.id, p_provider, j.tenant_id, array_to_string(p_buckets, ' '), slot from only jobs j where j.id = p_job
    on conflict (job_id, provider) do update set pace = excluded.pace, slot_at = excluded.slot_at;
  elsif wait <= p_early and reserved is not null then
    delete from only mail_slots m where m.job_id = p_job and m.provider = p_provider;
  end if;
  return wait;
end $$;
