-- Since when it is known that a worker that is dead holds no job. The sweep need not look at its index entries again, which stay while
-- something holds the xmin horizon.
alter table job_workers add column cleared_at timestamptz(6);
