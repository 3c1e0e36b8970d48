-- How many dead rows the table of jobs has, by the server's statistics. SQL, because it reads the catalogs.
select pg_stat_get_dead_tuples('atlas.jobs'::regclass);
