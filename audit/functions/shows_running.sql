-- Whether a snapshot shows a transaction as ended that is running, or has not begun: its rows would be in no window. A snapshot names the running
-- ones below its end only, so those between the end of the current snapshot and this one's must all be named in it.
-- Called by audit_seal_is_checked.
create or replace function shows_running(p_snapshot pg_snapshot) returns boolean language plpgsql volatile
set search_path from current as $$
declare
  now_shown constant pg_snapshot := pg_current_snapshot();
  past_end constant numeric := pg_snapshot_xmax(p_snapshot)::text::numeric - pg_snapshot_xmax(now_shown)::text::numeric;
begin
  return pg_snapshot_xmax(p_snapshot) > pg_current_xact_id()
    or exists (select from pg_snapshot_xip(now_shown) x where pg_visible_in_snapshot(x, p_snapshot))
    or past_end > (select count(*) from pg_snapshot_xip(p_snapshot) x where x >= pg_snapshot_xmax(now_shown));
end $$;
