-- How the rows of a seal's window differ from what the seal says of them, as the end of a sentence; null where they do not, and for what was left of
-- an epoch: how many there are of each tenant, the last one, and the highest id. The leaves are not computed again: that would double the cost of
-- sealing (5 us a row), and verification does it. Called by audit_seal_is_checked.
create or replace function sealed_rows_differ(p_seal audit_seal, p_last audit_seal, p_is_same boolean) returns text language plpgsql stable
set search_path from current set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  counts jsonb;
  highest bigint;
  last_xid xid8;
  last_id bigint;
  is_open boolean;
begin
  if p_seal.rest then
    return null;
  end if;
  with rows as materialized (
    select w.tenant_id, w.xid, w.id
    from audit_window(p_seal.epoch, p_seal.snap_prev, p_seal.snap_cur, case when p_is_same then p_last.to_xid else '0' end,
      case when p_is_same then p_last.to_id else 0 end, null, null, null, p_seal.count) w),
  sealed as (select * from rows order by xid, id limit p_seal.count - 1)
  select (select count(*) from rows) >= p_seal.count, (select max(s.id) from sealed s),
    (select jsonb_object_agg(t.tenant, t.count) from (
       select coalesce(s.tenant_id, '00000000-0000-0000-0000-000000000000') as tenant, count(*) from sealed s group by 1) t),
    l.xid, l.id
  into is_open, highest, counts, last_xid, last_id
  from (values (1)) one(row)
  left join lateral (select s.xid, s.id from sealed s order by s.xid desc, s.id desc limit 1) l on true;
  return case
    when (p_seal.closes and is_open) or (p_seal.count = 1 and not p_seal.closes) or counts is distinct from (
      select jsonb_object_agg(t.tenant_id, t.count) from audit_seal_tenant t where t.n = p_seal.n) then 'its rows are not those of its window'
    when (p_seal.to_xid, p_seal.to_id) is distinct from (coalesce(last_xid, '0'), coalesce(last_id, 0))
      or p_seal.max_id is distinct from greatest(highest, case when p_last.epoch = p_seal.epoch then p_last.max_id end, 0)
      then 'it does not say where its rows end' end;
end $$;
