-- The next rows of the audit log for one of its readers, and whether there may be more. The position that a reader has reached is in
-- system_state under its name and moves in the caller's transaction, so that a crash neither loses a row nor reads one twice.
--
-- The log is read by windows between snapshots, as the sealer does: each row falls into exactly one, however late it is committed.
-- With p_skip_to nothing is read: the reader goes on after what that snapshot shows.
-- Locks: none; the caller holds the lock of its reader. Called by meter_usage and take_webhook_events.
create or replace function next_audit_rows(p_reader text, p_limit int, p_skip_to pg_snapshot, out batch audit_log[], out more boolean)
language plpgsql volatile
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
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'reading the audit log needs READ COMMITTED, not %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state';
  end if;
  batch := '{}';
  more := false;
  select value into place from system_state where key = p_reader;
  newest := (select max(epoch) from audit_epoch);
  -- In another cluster the rows of the audit log have the ids of the old one, and most were read already: they wait.
  if cluster <> (select e.system_identifier from audit_epoch e where e.epoch = newest) then
    return;
  end if;
  now_epoch := newest;
  -- Another cluster's snapshots say nothing here: a restored log is read from the beginning of its new epoch.
  if place is not null and (place->>'cluster')::bigint = cluster then
    now_epoch := (place->>'epoch')::int;
    prev := (place->>'prev')::pg_snapshot;
    cur := (place->>'cur')::pg_snapshot;
    taken_at := (place->>'taken_at')::timestamptz;
    after_xid := (place->>'xid')::xid8;
    after_id := (place->>'id')::bigint;
  end if;
  if p_skip_to is not null then
    now_epoch := newest;
    cur := p_skip_to;
    taken_at := clock_timestamp();
  else
    if cur is null then
      -- The horizon comes in an earlier statement than the rows, so that whatever it shows is visible to them.
      taken_at := clock_timestamp();
      cur := pg_current_snapshot();
    end if;
    batch := array(
      select w from audit_window(now_epoch, prev, cur, after_xid, after_id, null, null, null, p_limit) w order by w.xid, w.id);
  end if;

  if cardinality(batch) >= p_limit then
    place := jsonb_build_object('epoch', now_epoch, 'prev', prev, 'cur', cur, 'taken_at', taken_at, 'xid', batch[p_limit].xid,
      'id', batch[p_limit].id, 'read_until', place->'read_until');
    more := true;
  elsif now_epoch < newest then
    -- The old epoch is read to its end: no row of it can appear any more.
    place := jsonb_build_object('epoch', newest, 'prev', '1:1:', 'xid', '0', 'id', 0, 'read_until', place->'read_until');
    more := true;
  else
    place := jsonb_build_object('epoch', now_epoch, 'prev', cur, 'xid', '0', 'id', 0, 'read_until', taken_at);
  end if;
  insert into system_state as s (key, value, updated_by)
  values (p_reader, place || jsonb_build_object('cluster', cluster), p_reader)
  on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp();
end $$;
