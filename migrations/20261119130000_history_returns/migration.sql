-- What a return took out of a part of history, of each tenant: a drop subtracts it from the numbers that moves stored, and need not count.
alter table history_changes add column returned jsonb;
