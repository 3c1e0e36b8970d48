-- a schedule -> removed. A run in progress ends by itself, and its history stays.
delete from atlas.recurring_jobs
where tenant_id = :tenant_id
  and id = :id
returning id;
