-- The secret fields of one job, for the attempt that runs it. SQL, because a worker calls it for every job with secrets,
-- without the generated client.
select field, key_id, nonce, ciphertext
from only atlas.job_secrets
where job_id = :job_id
  and tenant_id = :tenant_id;
