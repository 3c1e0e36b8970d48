-- Notes why a worker's event loop does not turn. Looks across tenants: a worker serves them all. SQL, because a function does it.
select atlas.report_stall(:worker, :seconds::float8, :job_id::uuid, :stack);
