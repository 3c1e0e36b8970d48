-- Moves the clock of the shares on to the virtual time of the tenant that was served; not for less than a twentieth of a second, and not
-- while another claim moves it. Called by pick_groups and pick_places.
create or replace function move_share_clock(p_at float8) returns void language plpgsql volatile
set search_path from current as $$
declare
  clock tid;
begin
  if (select c.at from share_clock c order by c.at desc limit 1) < p_at - 0.05 then
    clock := (select c.ctid from share_clock c order by c.at desc limit 1 for update skip locked);
    update share_clock set at = p_at where ctid = clock and at < p_at;
  end if;
end $$;
