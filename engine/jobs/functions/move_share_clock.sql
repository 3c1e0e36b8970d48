-- Moves the clock of the shares on to the virtual time of the tenant that was served; not for less than a twentieth of a second, and not
-- while another claim moves it. Called by pick_ready.
create or replace function move_share_clock(p_at float8) returns void language plpgsql volatile
set search_path from current as $$
begin
  if exists (select from share_clock where at < p_at - 0.05)
     and exists (select from share_clock for update skip locked) then
    update share_clock set at = p_at where at < p_at;
  end if;
end $$;
