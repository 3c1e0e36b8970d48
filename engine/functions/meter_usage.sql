-- Meters finished attempts into their hours. Returns how many audit rows it read: as many as asked for means there may be more.
-- Null: another meter is at work.
--
-- Every end of an attempt has an audit row, written in the transaction that ended it. The meter reads the audit log by windows
-- between snapshots, as the sealer does: each row falls into exactly one, however late it is committed. The position it has
-- reached moves in the transaction that adds to the hours, so that a crash neither loses an attempt nor counts one twice.
-- Values of a handler's own that bear the name of the attempt and are no attempt number are passed over.
-- Locks: metering. Called by engine/usage.py.
create or replace function meter_usage(p_limit int) returns int language plpgsql volatile
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  place jsonb;
  cluster bigint := system_identifier();
  newest int;
  now_epoch int;
  prev pg_snapshot := '1:1:';
  cur pg_snapshot;
  taken_at timestamptz;
  after_xid xid8 := '0';
  after_id bigint := 0;
  read int;
  last_xid xid8;
  last_id bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'metering needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state';
  end if;
  if not pg_try_advisory_xact_lock(lock_class('metering'), 0) then
    return null;
  end if;
  select value into place from system_state where key = 'usage_meter';
  newest := (select max(epoch) from audit_epoch);
  -- In another cluster the rows of the audit log have the ids of the old one, and most are counted already: they wait.
  if cluster <> (select e.system_identifier from audit_epoch e where e.epoch = newest) then
    return 0;
  end if;
  now_epoch := newest;
  -- Another cluster's snapshots say nothing here: a restored account is read from the beginning of its new epoch.
  if place is not null and (place->>'cluster')::bigint = cluster then
    now_epoch := (place->>'epoch')::int;
    prev := (place->>'prev')::pg_snapshot;
    cur := (place->>'cur')::pg_snapshot;
    taken_at := (place->>'taken_at')::timestamptz;
    after_xid := (place->>'xid')::xid8;
    after_id := (place->>'id')::bigint;
  end if;
  if cur is null then
    -- The horizon comes in an earlier statement than the rows, so that whatever it shows is visible to them.
    taken_at := clock_timestamp();
    cur := pg_current_snapshot();
  end if;

  with rows as materialized (
    select w.xid, w.id, w.tenant_id, w.action, w.entity_type, w.entity_id, w.meta, w.created_at
    from audit_window(now_epoch, prev, cur, after_xid, after_id, null, null, null, p_limit) w),
  ends as materialized (
    select distinct on (r.entity_id, r.meta->>'attempt') r.entity_id::uuid as job_id, (r.meta->>'attempt')::int as attempt_no,
      r.tenant_id, r.action, r.created_at
    from rows r
    where r.entity_type = 'job' and jsonb_typeof(r.meta->'attempt') = 'number' and r.meta->>'attempt' ~ '^[0-9]{1,9}$'
    order by r.entity_id, r.meta->>'attempt', r.id desc),
  -- what the rows of the attempt and its job say; of a job that is deleted already, the audit log itself
  attempts as materialized (
    select e.job_id, coalesce(j.tenant_id, e.tenant_id) as tenant_id,
      coalesce(j.job_type, made.job_type, 'deleted') as job_type,
      coalesce(a.status::text, case when j.id is not null then 'succeeded'
        when e.action in ('JOB_FAILED', 'JOB_EXHAUSTED_RETRIES', 'JOB_RETRY_SCHEDULED', 'WORKFLOW_FAILED', 'WORKFLOW_NOT_FOUND') then 'failed'
        when e.action in ('LEASE_EXPIRED', 'JOB_POISONED') then 'lost'
        when e.action = 'JOB_CANCELED' then 'canceled' else 'succeeded' end) as status,
      coalesce(a.finished_at, j.finished_at, e.created_at) as finished_at,
      coalesce(extract(epoch from coalesce(a.finished_at, j.finished_at) - coalesce(a.started_at, j.started_at)), 0) as run_seconds,
      coalesce(extract(epoch from coalesce(a.started_at, j.started_at)
        - case when e.attempt_no = 1 then j.created_at else b.finished_at end), 0) as queue_seconds
    from ends e
    left join job_attempts a on a.job_id = e.job_id and a.attempt_no = e.attempt_no
    left join jobs j on j.id = e.job_id and (a.job_id is not null or j.attempt_count = e.attempt_no)
    left join job_attempts b on b.job_id = e.job_id and b.attempt_no = e.attempt_no - 1
    left join lateral (
      select m.meta->>'job_type' as job_type from audit_log m
      where m.entity_id = e.job_id::text and m.action = 'JOB_CREATED' limit 1) made on j.id is null),
  costs as (
    select j.id, j.cost_cents, j.cost_cents - coalesce(c.cents, 0) as cents, l.tenant_id, l.job_type, l.hour
    from (
      select distinct on (t.job_id) t.job_id, t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour
      from attempts t order by t.job_id, t.finished_at desc) l
    join jobs j on j.id = l.job_id
    left join usage_costs c on c.job_id = j.id
    where j.cost_cents <> coalesce(c.cents, 0)),
  known as (
    insert into usage_costs (job_id, cents) select id, cost_cents from costs
    on conflict (job_id) do update set cents = excluded.cents),
  hours as (
    select t.tenant_id, t.job_type, date_trunc('hour', t.finished_at, 'UTC') as hour, count(*) as runs,
      count(*) filter (where t.status = 'succeeded') as succeeded, count(*) filter (where t.status = 'failed') as failed,
      count(*) filter (where t.status = 'timeout') as timed_out, count(*) filter (where t.status = 'canceled') as canceled,
      count(*) filter (where t.status = 'lost') as lost, sum(t.run_seconds) as run_seconds, sum(greatest(0, t.queue_seconds)) as queue_seconds
    from attempts t
    where t.tenant_id is not null
    group by 1, 2, 3),
  added as (
    insert into usage_hourly as u (tenant_id, job_type, hour, runs, succeeded, failed, timed_out, canceled, lost, run_seconds,
      queue_seconds, cost_cents)
    select h.tenant_id, h.job_type, h.hour, h.runs, h.succeeded, h.failed, h.timed_out, h.canceled, h.lost, h.run_seconds,
      h.queue_seconds,
      coalesce((select sum(c.cents) from costs c where c.tenant_id = h.tenant_id and c.job_type = h.job_type and c.hour = h.hour), 0)
    from hours h
    on conflict (tenant_id, job_type, hour) do update
    set runs = u.runs + excluded.runs, succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
        timed_out = u.timed_out + excluded.timed_out, canceled = u.canceled + excluded.canceled, lost = u.lost + excluded.lost,
        run_seconds = u.run_seconds + excluded.run_seconds, queue_seconds = u.queue_seconds + excluded.queue_seconds,
        cost_cents = u.cost_cents + excluded.cost_cents, updated_at = clock_timestamp())
  select count(*), max(r.xid), (array_agg(r.id order by r.xid desc, r.id desc))[1] into read, last_xid, last_id from rows r;

  if read >= p_limit then
    place := jsonb_build_object('epoch', now_epoch, 'prev', prev, 'cur', cur, 'taken_at', taken_at, 'xid', last_xid, 'id', last_id,
      'metered_until', place->'metered_until');
  elsif now_epoch < newest then
    -- The old epoch is read to its end: no row of it can appear any more.
    place := jsonb_build_object('epoch', newest, 'prev', '1:1:', 'xid', '0', 'id', 0, 'metered_until', place->'metered_until');
    read := p_limit;
  else
    place := jsonb_build_object('epoch', now_epoch, 'prev', cur, 'xid', '0', 'id', 0, 'metered_until', taken_at);
  end if;
  insert into system_state as s (key, value, updated_by)
  values ('usage_meter', place || jsonb_build_object('cluster', cluster), 'usage meter')
  on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp();
  return read;
end $$;
