-- fired -> failed, in the transaction that reserved them: what they were to start could not be started. SQL, because it is a batch.
update atlas.trigger_fires f
set result = 'failed',
    job_id = null,
    error  = u.error
from unnest(:ids::uuid[], :errors::text[]) u(id, error)
where f.id = u.id
  and f.result = 'fired';
