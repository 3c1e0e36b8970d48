-- a schedule -> gone. A run in progress ends by itself and finds nothing to record in.
delete from atlas.recurring_jobs
where tenant_id = :tenant_id
  and id = :id
returning id;
