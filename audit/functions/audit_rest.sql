-- What was left of an epoch when another began: rows in no seal of it. p_prev, p_cur and p_last are the window and the last row
-- of its last ordinary seal (no p_last where that seal closed its window), p_boundary is the highest id sealed by then. A row
-- above it is left over whatever its transaction id; one below is, if that seal's window did not reach it.
-- Called by the sealer and the verifier.
create or replace function audit_rest(
  p_epoch int, p_prev pg_snapshot, p_cur pg_snapshot, p_last_xid xid8, p_last_id bigint, p_boundary bigint,
  p_after_xid xid8, p_after_id bigint, p_to_xid xid8, p_to_id bigint, p_limit int
) returns setof audit_log language sql stable
begin atomic
  select *
  from (
    select * from audit_log
    where epoch = p_epoch and id > p_boundary
    union all
    select * from audit_log
    where epoch = p_epoch and id <= p_boundary and xid = any (array(select pg_snapshot_xip(p_prev)))
      and not (pg_visible_in_snapshot(xid, p_cur) and (p_last_xid is null or (xid, id) <= (p_last_xid, p_last_id)))
    union all
    select * from audit_log
    where epoch = p_epoch and id <= p_boundary and xid >= pg_snapshot_xmax(p_prev)
      and not (pg_visible_in_snapshot(xid, p_cur) and (p_last_xid is null or (xid, id) <= (p_last_xid, p_last_id)))
  ) left_over
  where (xid, id) > (p_after_xid, p_after_id)
    and (xid, id) <= (coalesce(p_to_xid, '18446744073709551615'::xid8), coalesce(p_to_id, 9223372036854775807))
  order by xid, id limit p_limit;
end;
