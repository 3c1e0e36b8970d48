-- Mail: what is known about each sending, so that an attempt whose answer never came can be resolved by the next
-- one, and the pace of each sender, shared by all workers.

-- begun -> drafted -> sending -> sent. From `sending` on the provider may have the mail, whatever happened to its answer.
create table mail_ledger (
  job_id             uuid not null references jobs (id) on delete cascade,
  provider           text not null check (provider <> ''),
  tenant_id          uuid not null,
  sender             text not null,
  state              text not null default 'begun' check (state in ('begun', 'drafted', 'sending', 'sent')),
  -- The attempt that has this entry in hand: the fence of every write but the last.
  attempt_no         int not null,
  draft_id           text,
  message_id         text,
  -- The moment that is reserved for this mail in its sender's pace.
  slot_at            timestamptz(6),
  first_requested_at timestamptz(6),
  created_at         timestamptz(6) not null default clock_timestamp(),
  updated_at         timestamptz(6) not null default clock_timestamp(),
  primary key (job_id, provider),
  constraint mail_ledger_drafted_has_a_draft check (state <> 'drafted' or draft_id is not null),
  constraint mail_ledger_sending_was_requested check (state <> 'sending' or first_requested_at is not null)
);

-- One row a bucket: the moment up to which its pace is spent.
create table mail_pace (
  bucket  text primary key,
  next_at timestamptz(6) not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

-- Does this attempt still hold the job? Locks the row for the caller's transaction, so that nobody takes the job over
-- between the answer and the write that relies on it.
create function atlas_mail_held(p_job uuid, p_worker text, p_attempt int) returns boolean language plpgsql volatile as $$
begin
  perform from jobs j
  where j.id = p_job and j.status = 'running' and j.claimed_by = p_worker and j.attempt_count = p_attempt
    and case when j.lease_expires_at is null
             then exists (select from job_workers w
                          where w.worker_id = p_worker and w.dead_at is null and w.lease_expires_at > clock_timestamp())
             else j.lease_expires_at > clock_timestamp() end
  for share;
  return found;
end $$;

-- Reserves the next moment that every one of the buckets allows. Of n messages a minute a tenth may go at once after
-- a pause and the rest evenly, so that no sixty seconds ever see more than n.
create function atlas_mail_slot(p_buckets text[], p_per_minute int[]) returns timestamptz language plpgsql volatile as $$
declare
  slot timestamptz;
begin
  insert into mail_pace (bucket, next_at) select b, '-infinity' from unnest(p_buckets) b on conflict do nothing;
  -- In one order everywhere, so that two mails never wait for each other.
  perform from mail_pace where bucket = any (p_buckets) order by bucket for update;
  select greatest(clock_timestamp(), max(m.next_at - (c.burst - 1) * c.every)) into slot
  from unnest(p_buckets, p_per_minute) u(bucket, per_minute)
  join mail_pace m on m.bucket = u.bucket
  cross join lateral (select ceil(u.per_minute / 10.0) as burst) b
  cross join lateral (select b.burst, interval '1 minute' / (u.per_minute - b.burst + 1)::float8 as every) c;
  update mail_pace m
  set next_at = greatest(m.next_at, slot) + interval '1 minute' / (u.per_minute - ceil(u.per_minute / 10.0) + 1)::float8
  from unnest(p_buckets, p_per_minute) u(bucket, per_minute)
  where m.bucket = u.bucket;
  return slot;
end $$;

-- Opens the ledger for one provider and asks the pace. `held` false: the job is another worker's. `wait` over zero: come
-- back after so many seconds, a moment is reserved. A reserved moment that was missed by far is not used up later, when
-- others would be missed too: it is given up for a new one.
create function atlas_mail_begin(
  p_job uuid, p_worker text, p_attempt int, p_provider text, p_sender text, p_buckets text[], p_per_minute int[]
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
      slot := atlas_mail_slot(p_buckets, p_per_minute);
    end if;
  else
    slot := null;
  end if;
  wait := coalesce(greatest(0, extract(epoch from slot - clock_timestamp())), 0);
  update mail_ledger m set slot_at = case when wait > 0 then slot end, updated_at = clock_timestamp()
  where m.job_id = p_job and m.provider = p_provider and m.slot_at is distinct from case when wait > 0 then slot end;
  return query select true, wait, entry.sender, entry.draft_id;
end $$;

do $$
begin
  if exists (select from pg_roles where rolname = 'atlas_engine') then
    grant select, insert, update, delete on mail_ledger, mail_pace to atlas_engine;
  end if;
exception
  when undefined_object or insufficient_privilege then
    raise notice 'the programs may not use the mail ledger yet; see atlas doctor';
end $$;
