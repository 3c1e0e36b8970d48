-- Takes over the soonest send slot that an ended mail of the same buckets holds, where the pace is spent for more than a
-- minute. A slot only changes its owner, so the pace stays as exact as it was; a mail that is retried finds its slot gone
-- and reserves another. Looks at the first that wait, so that it costs the same however many do.
create or replace function mail_freed_slot(p_buckets text[]) returns timestamptz language plpgsql volatile
set search_path from current as $$
declare
  paces text := array_to_string(p_buckets, ' ');
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
      select m.job_id, m.provider, m.slot_at from only mail_slots m
      where m.pace = paces and m.slot_at > since + (2 ^ k - 1) * interval '1 minute'
      order by m.slot_at limit 30) w
    where exists (select from only jobs j where j.id = w.job_id and j.status in ('succeeded', 'failed', 'canceled'))
    order by w.slot_at
  loop
    -- A locked row belongs to a worker that takes this slot too, or to the mail itself, retried.
    select m.slot_at into slot from only mail_slots m
    where m.job_id = ended.job_id and m.provider = ended.provider and m.pace = paces and m.slot_at > since
    for update skip locked;
    if found then
      delete from only mail_slots m where m.job_id = ended.job_id and m.provider = ended.provider;
      return slot;
    end if;
  end loop;
  return null;
end $$;
