-- Opens the ledger for one provider and reserves a send slot. `held` false: the job is another worker's. `wait` over zero: a
-- slot is reserved, and the mail may go after so many seconds. The caller waits for one that comes within `p_early` seconds,
-- which uses it up; for others the job comes back. A reserved slot that was missed by far is not used later, when
-- others would be missed too: it is exchanged for a new one, or for one that an ended mail leaves behind.
-- Called by programs of the release before; what this release has begun is left to its own programs, and the mail comes back. It goes with mail_ledger, one release later.
create or replace function mail_begin(
  p_job uuid, p_worker text, p_attempt int, p_provider text, p_sender text, p_buckets text[], p_per_minute int[],
  p_at_once int[] default null, p_early float8 default 0
) returns table (held boolean, wait float8, sender text, draft_id text) language plpgsql volatile
set search_path from current as $$
#variable_conflict use_column
declare
  entry mail_ledger;
  slot timestamptz;
begin
  if not mail_held(p_job, p_worker, p_attempt) then
    return query select false, 0::float8, null::text, null::text;
    return;
  end if;
  if exists (select from only effects e where e.job_id = p_job and e.name like '%.mail') then
    return query select true, 10 + p_early, p_sender, null::text;
    return;
  end if;
  insert into mail_ledger as m (job_id, provider, tenant_id, sender, attempt_no)
  select p_job, p_provider, j.tenant_id, p_sender, p_attempt from only jobs j where j.id = p_job
  on conflict (job_id, provider) do update
    set attempt_no = p_attempt,
        -- A draft belongs to the mailbox it was made in.
        sender = case when m.draft_id is null then p_sender else m.sender end
  returning * into entry;
  slot := entry.slot_at;
  if cardinality(p_buckets) > 0 then
    if slot is null or slot < clock_timestamp() - interval '10 seconds' then
      slot := coalesce(mail_freed_slot(p_buckets), mail_slot(p_buckets, p_per_minute, p_at_once));
    end if;
  else
    slot := null;
  end if;
  wait := coalesce(greatest(0, extract(epoch from slot - clock_timestamp())), 0);
  update only mail_ledger m set slot_at = case when wait > p_early then slot end, slot_pace = array_to_string(p_buckets, ' ')
  where m.job_id = p_job and m.provider = p_provider and m.slot_at is distinct from case when wait > p_early then slot end;
  return query select true, wait, entry.sender, entry.draft_id;
end $$;
