-- Refuses to roles other than the owner's a seal that is not the next one: its number, epoch, window and header follow from the seal before it and
-- from what is committed, it has as many leaves as its window has rows of each tenant, and its root is that of the tree with these leaves. So no
-- seal can stop the sealer or the signer, or leave out rows. That its leaves are the hashes of these rows is for verification to say.
-- Runs after the statement that adds a seal and the numbers of its tenants; its triggers call it.
create or replace function audit_seal_is_checked() returns trigger language plpgsql
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  last audit_seal;
  stated jsonb;
  -- whether it goes on in the window of the seal before it
  is_same boolean;
  broken text;
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage') then
    return null;
  end if;
  select * into last from audit_seal s where s.n = new.n - 1;
  is_same := coalesce(last.epoch = new.epoch and (new.rest or not last.closes), false);
  stated := convert_from(new.header, 'UTF8')::jsonb;
  broken := case
    when new.n < 1 or (last.n is null) <> (new.n = 1) or exists (select from audit_seal s where s.n > new.n) then 'its number is not the next one'
    when new.first_index <> coalesce(last.size, 0) or new.count < 1 or new.size <> new.first_index + new.count
      then 'its leaves do not follow those before'
    when not exists (select from audit_epoch e where e.epoch = new.epoch and e.started_at = new.epoch_at)
      or new.epoch is distinct from case when last.rest and last.closes or last.n is null
        then (select min(e.epoch) from audit_epoch e where e.epoch > coalesce(last.epoch, 0)) else last.epoch end
      or new.rest <> exists (select from audit_epoch e where e.epoch > new.epoch) then 'it is not of the epoch to seal'
    when new.system_identifier <> system_identifier()
      or new.system_identifier <> (select e.system_identifier from audit_epoch e order by e.epoch desc limit 1) then 'it is of another cluster'
    when is_same and (new.snap_prev::text, new.snap_cur::text) is distinct from (last.snap_prev::text, last.snap_cur::text)
      or not is_same and (new.snap_prev::text is distinct from case when last.epoch = new.epoch then last.snap_cur::text else '1:1:' end
        or pg_snapshot_xmax(new.snap_cur) < pg_snapshot_xmax(new.snap_prev)
        or exists (select from pg_snapshot_xip(new.snap_cur) x where pg_visible_in_snapshot(x, new.snap_prev)))
      or not new.rest and shows_running(new.snap_cur)
      then 'its window does not follow the one before it'
    when abs(extract(epoch from clock_timestamp() - new.sealed_at)) > 300
      or (case when is_same and last.rest = new.rest then new.snap_at <> last.snap_at
               else abs(extract(epoch from clock_timestamp() - new.snap_at)) > 300 end) then 'its times are not those of now'
    when (stated->>'epoch_at')::timestamptz is distinct from new.epoch_at or (stated->>'snap_at')::timestamptz is distinct from new.snap_at
      or (stated->>'sealed_at')::timestamptz is distinct from new.sealed_at
      or stated - '{epoch_at,snap_at,sealed_at}'::text[] is distinct from jsonb_build_object('n', new.n, 'epoch', new.epoch,
        'system_identifier', new.system_identifier, 'snap_prev', new.snap_prev, 'snap_cur', new.snap_cur, 'closes', new.closes,
        'rest', new.rest, 'to_xid', new.to_xid::text::numeric, 'to_id', new.to_id, 'max_id', new.max_id, 'first_index', new.first_index,
        'count', new.count, 'size', new.size) then 'its header differs from its columns'
    when (select coalesce(sum(t.count), 0) from audit_seal_tenant t where t.n = new.n) <> new.count - 1 then 'its running numbers do not add up'
  end;
  broken := coalesce(broken, sealed_rows_differ(new, last, is_same), sealed_tree_differs(new, last));
  if broken is not null then
    raise exception 'seal % is not one that the sealer makes: %', new.n, broken using errcode = 'insufficient_privilege',
      hint = 'Run `atlas scheduler`, which seals; `atlas audit verify` says whether the seals that are there are right.';
  end if;
  return null;
exception
  when data_exception then
    raise exception 'seal % is not one that the sealer makes: it cannot be read', new.n using errcode = 'insufficient_privilege';
end $$;

select secure_trigger('audit_seal', 'audit_seal_checked', $trigger$after insert on audit_seal for each row
  execute function audit_seal_is_checked()$trigger$);
