-- a schedule -> removed. A run in progress ends by itself and records nothing.
delete from atlas.recurring_jobs
where tenant_id = :tenant_id
  and id = :id
returning id;
