-- Moments in the pace that mails reserved and will not use, because they were canceled say, go to mails that would wait long.

alter table mail_ledger
  -- The buckets in which `slot_at` is reserved, as one text.
  add column slot_pace text;

create index mail_ledger_moments on mail_ledger (slot_pace, slot_at) where slot_at is not null;

-- Takes over the soonest moment that an ended mail of the same buckets holds, where the pace is spent for more than a
-- minute. A moment only changes hands, so the pace stays as exact as it was; a mail that is retried finds its moment gone
-- and reserves another. Looks at the first hundred that wait, so that it costs the same however many do.
create function atlas_mail_freed_slot(p_buckets text[]) returns timestamptz language plpgsql volatile as $$
declare
  pace text := array_to_string(p_buckets, ' ');
  since timestamptz := clock_timestamp();
  ended record;
  slot timestamptz;
begin
  if not exists (select from mail_pace m where m.bucket = any (p_buckets) and m.next_at > since + interval '1 minute') then
    return null;
  end if;
  for ended in
    select w.job_id, w.provider
    -- The first of each stretch, every one twice as long as that before it: the soonest may all be of mails that wait.
    from generate_series(0, 14) k
    cross join lateral (
      select m.job_id, m.provider, m.slot_at from mail_ledger m
      where m.slot_pace = pace and m.slot_at > since + (2 ^ k - 1) * interval '1 minute'
      order by m.slot_at limit 30) w
    where exists (select from jobs j where j.id = w.job_id and j.status in ('succeeded', 'failed', 'canceled'))
    order by w.slot_at
  loop
    -- Whoever has the row at this moment may be taking the moment, or is the mail itself, retried.
    select m.slot_at into slot from mail_ledger m
    where m.job_id = ended.job_id and m.provider = ended.provider and m.slot_pace = pace and m.slot_at > since
    for update skip locked;
    if found then
      update mail_ledger m set slot_at = null where m.job_id = ended.job_id and m.provider = ended.provider;
      return slot;
    end if;
  end loop;
  return null;
end $$;

-- Opens the ledger for one provider and asks the pace. `held` false: the job is another worker's. `wait` over zero: a
-- moment is reserved, and the mail may go after so many seconds. One that comes within `p_patience` is waited out by the
-- caller and used up with that; for others the job comes back. A reserved moment that was missed by far is not used
-- up later, when others would be missed too: it is given up for a new one, or for one that an ended mail leaves behind.
create or replace function atlas_mail_begin(
  p_job uuid, p_worker text, p_attempt int, p_provider text, p_sender text, p_buckets text[], p_per_minute int[],
  p_at_once int[] default null, p_patience float8 default 0
) returns table (held boolean, wait float8, sender text, draft_id text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  entry mail_ledger;
  slot timestamptz;
begin
  if not atlas_mail_held(p_job, p_worker, p_attempt) then
    return query select false, 0::float8, null::text, null::text;
    return;
  end if;
  insert into mail_ledger as m (job_id, provider, tenant_id, sender, attempt_no)
  select p_job, p_provider, j.tenant_id, p_sender, p_attempt from jobs j where j.id = p_job
  on conflict (job_id, provider) do update
    set attempt_no = p_attempt,
        -- A draft lies in the mailbox it was made in.
        sender = case when m.draft_id is null then p_sender else m.sender end
  returning * into entry;
  slot := entry.slot_at;
  if cardinality(p_buckets) > 0 then
    if slot is null or slot < clock_timestamp() - interval '10 seconds' then
      slot := coalesce(atlas_mail_freed_slot(p_buckets), atlas_mail_slot(p_buckets, p_per_minute, p_at_once));
    end if;
  else
    slot := null;
  end if;
  wait := coalesce(greatest(0, extract(epoch from slot - clock_timestamp())), 0);
  update mail_ledger m set slot_at = case when wait > p_patience then slot end, slot_pace = array_to_string(p_buckets, ' ')
  where m.job_id = p_job and m.provider = p_provider and m.slot_at is distinct from case when wait > p_patience then slot end;
  return query select true, wait, entry.sender, entry.draft_id;
end $$;
