-- finished and past its age -> removed, with JOBS_PRUNED for each tenant: a whole table of history. SQL, because a function does it.
select atlas.drop_history_part(:part, :others);
