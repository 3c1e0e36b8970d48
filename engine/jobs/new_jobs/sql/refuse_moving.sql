-- Raises AT421 if a tenant moves to another installation. Called by engine/jobs/new_jobs/refusals.py. SQL, because a function does it.
select atlas.refuse_moving(:tenant_id);
