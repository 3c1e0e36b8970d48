-- Why a worker was lost, as evidence about the jobs that it ran.
alter table job_workers
  -- when a sweep found its lease expired
  add column lost_at timestamptz(6),
  -- what its watchdog reported: {"since", "stack"}; null again as soon as a heartbeat shows that its event loop turns
  add column stall jsonb,
  -- the job that its loss is attributed to: the one whose handler kept the event loop, or the only one that it ran
  add column suspect_job_id uuid;
