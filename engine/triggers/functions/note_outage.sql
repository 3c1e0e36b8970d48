-- Due times that passed in this time were missed: by all schedules (p_trigger null) or by one; with p_began null, all times up
-- to the end. Called by switch_gate, pause_target and resume_target.
create or replace function note_outage(p_trigger uuid, p_began timestamptz, p_ended timestamptz) returns void language plpgsql volatile
set search_path from current as $$
declare
  outage tstzmultirange := tstzmultirange(tstzrange(case when p_began > p_ended then p_ended else p_began end, p_ended, '(]'));
begin
  if p_trigger is null then
    update scheduler_leader set outages = outages + outage;
  else
    update job_triggers set outages = outages + outage where id = p_trigger and trigger_type = 'schedule';
  end if;
end $$;
