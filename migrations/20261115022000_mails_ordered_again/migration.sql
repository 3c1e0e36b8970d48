-- Mails that an operator orders again: the order outlives the attempt that reads it. Drafts that are removed: the intent
-- outlives the attempt that has it. And a pace that an account counts by the second.

alter table mail_ledger
  -- An operator, who was told that nobody knows what became of the open request, ordered the mail again. While this is
  -- later than `updated_at`, the provider was not asked since, and the entry keeps no other provider from sending it.
  add column ordered_at timestamptz(6),
  -- From here on the draft may be gone because it was removed, which says nothing about its having been sent.
  add column discarded_at timestamptz(6);

-- Reserves the next moment that every one of the buckets allows. Of n messages a minute a tenth may go at once after
-- a pause, or as few as `p_at_once` says, and the rest evenly, so that no sixty seconds of moments hold more than n.
drop function atlas_mail_slot(text[], int[]);
create function atlas_mail_slot(p_buckets text[], p_per_minute int[], p_at_once int[] default null)
returns timestamptz language plpgsql volatile as $$
declare
  slot timestamptz;
begin
  insert into mail_pace (bucket, next_at) select b, '-infinity' from unnest(p_buckets) b on conflict do nothing;
  -- In one order everywhere, so that two mails never wait for each other.
  perform from mail_pace where bucket = any (p_buckets) order by bucket for update;
  select greatest(clock_timestamp(), max(m.next_at - (b.burst - 1) * (interval '1 minute' / (u.per_minute - b.burst + 1)::float8)))
  into slot
  from unnest(p_buckets, p_per_minute, p_at_once) u(bucket, per_minute, at_once)
  join mail_pace m on m.bucket = u.bucket
  cross join lateral (select least(ceil(u.per_minute / 10.0), u.at_once) as burst) b;
  update mail_pace m
  set next_at = greatest(m.next_at, slot)
    + interval '1 minute' / (u.per_minute - least(ceil(u.per_minute / 10.0), u.at_once) + 1)::float8
  from unnest(p_buckets, p_per_minute, p_at_once) u(bucket, per_minute, at_once)
  where m.bucket = u.bucket;
  return slot;
end $$;

-- Opens the ledger for one provider and asks the pace. `held` false: the job is another worker's. `wait` over zero: a
-- moment is reserved, and the mail may go after so many seconds. One that comes within `p_patience` is waited out by the
-- caller and used up with that; for others the job comes back. A reserved moment that was missed by far is not used
-- up later, when others would be missed too: it is given up for a new one.
drop function atlas_mail_begin(uuid, text, int, text, text, text[], int[]);
create function atlas_mail_begin(
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
      slot := atlas_mail_slot(p_buckets, p_per_minute, p_at_once);
    end if;
  else
    slot := null;
  end if;
  wait := coalesce(greatest(0, extract(epoch from slot - clock_timestamp())), 0);
  update mail_ledger m set slot_at = case when wait > p_patience then slot end
  where m.job_id = p_job and m.provider = p_provider and m.slot_at is distinct from case when wait > p_patience then slot end;
  return query select true, wait, entry.sender, entry.draft_id;
end $$;
