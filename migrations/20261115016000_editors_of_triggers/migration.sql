-- Who last changed what a trigger starts, and when: on whose behalf it fires. Null where only its maker arranged it.
alter table job_triggers add column edited_by text;
