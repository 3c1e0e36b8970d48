-- When each version of a workflow was saved, enabled or disabled last: the date that If-Unmodified-Since is compared with.
alter table workflows add column updated_at timestamptz(6) not null default clock_timestamp();
