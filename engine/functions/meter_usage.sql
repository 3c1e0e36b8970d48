-- Meters what happened to jobs: usage by the hour, counts of jobs, totals of job types. Returns how many audit rows it read: as many as
-- asked for means there may be more. Null: another meter is at work.
--
-- What happens to a job has an audit row, written in the transaction that did it. The meter reads the audit log by windows
-- between snapshots, as the sealer does: each row falls into exactly one, however late it is committed. The position it has
-- reached moves in the transaction that adds to the tables, so that a crash neither loses a row nor counts one twice.
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
  batch audit_log[];
  read int;
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

  batch := array(
    select w from audit_window(now_epoch, prev, cur, after_xid, after_id, null, null, null, p_limit) w order by w.xid, w.id);
  read := cardinality(batch);
  if read > 0 then
    perform add_to_usage(batch);
    perform add_to_job_counts(batch);
    perform add_to_job_totals(batch);
  end if;

  if read >= p_limit then
    place := jsonb_build_object('epoch', now_epoch, 'prev', prev, 'cur', cur, 'taken_at', taken_at, 'xid', batch[read].xid,
      'id', batch[read].id, 'metered_until', place->'metered_until');
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
