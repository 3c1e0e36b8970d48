-- So that a claim finds the new events of limits without walking over those that were taken, while a transaction holds the xmin horizon.
alter table limit_events add column noted_at timestamptz(6) not null default clock_timestamp();
create index limit_events_noted on limit_events (noted_at);
