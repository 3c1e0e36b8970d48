-- The schema a worker published for a job type.
select input_schema from job_types where key = :key;
