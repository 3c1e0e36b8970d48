-- The jobs that a filter matched when someone looked at what an action would change, newest first. The action names the set by its digest,
-- and changes these jobs and no others. Kept for a day, and as long as an action on it runs.
create table bulk_previews (
  digest     text primary key,
  tenant_id  uuid,
  action     text not null check (action in ('retry', 'cancel', 'delete', 'discard')),
  filter     jsonb not null,
  ids        uuid[] not null,
  -- How many jobs match that the action would not change, by the reason.
  left_out   jsonb not null default '{}',
  -- False: more jobs match than a set can hold.
  complete   boolean not null,
  created_by text not null,
  -- When the set was read. Jobs that finished later are not in it.
  as_of      timestamptz(6) not null default clock_timestamp()
);
-- Ids do not compress, and a step of an action reads a few of many.
alter table bulk_previews alter column ids set storage external;
create index bulk_previews_as_of on bulk_previews (as_of);
