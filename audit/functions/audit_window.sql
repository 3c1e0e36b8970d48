-- The rows of a window after one position and up to another: committed when p_cur was taken and not when p_prev was.
-- Only what was running at p_prev or began later is looked at, so that a long transaction does not make windows slow.
-- p_max_id leaves out rows written in a restored cluster, whose transaction ids repeat old ones.
-- Called by the sealer, the verifier and next_audit_rows.
create or replace function audit_window(
  p_epoch int, p_prev pg_snapshot, p_cur pg_snapshot, p_after_xid xid8, p_after_id bigint, p_to_xid xid8, p_to_id bigint,
  p_max_id bigint, p_limit int
) returns setof audit_log language sql stable
begin atomic
  (select a.*
   from pg_snapshot_xip(p_prev) x
   cross join lateral (
     select * from audit_log
     where epoch = p_epoch and xid = x and (xid, id) > (p_after_xid, p_after_id)
       and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
       and id <= coalesce(p_max_id, 9223372036854775807)
     order by xid, id limit p_limit) a
   where x >= p_after_xid and pg_visible_in_snapshot(x, p_cur))
  union all
  (select * from audit_log
   where epoch = p_epoch and xid >= pg_snapshot_xmax(p_prev) and xid < pg_snapshot_xmax(p_cur)
     and (xid, id) > (p_after_xid, p_after_id)
     and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
     and id <= coalesce(p_max_id, 9223372036854775807)
     and pg_visible_in_snapshot(xid, p_cur)
   order by xid, id limit p_limit)
  order by xid, id limit p_limit;
end;
