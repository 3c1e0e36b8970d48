-- What became of every due time: one that fell due while a scheduler led fires however late; one that was missed has a row that says so.

alter type fire_result add value 'missed';

-- When nothing could fire: Atlas was offline, or no scheduler led.
alter table scheduler_leader add column outages tstzmultirange not null default '{}';
-- When this trigger could not fire: it was paused, or its tenant was moving.
alter table job_triggers add column outages tstzmultirange not null default '{}';
