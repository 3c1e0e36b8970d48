-- The schema a worker published for a job type.
select input_schema from atlas.job_types where key = :key;
