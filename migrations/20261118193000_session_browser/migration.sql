-- Where a person signed in: the browser by its name, and the commitment of the address. The address itself is among the personal
-- values, in audit_private, where it can be erased.
alter table sessions
  add column ip_commitment text,
  add column browser text;
