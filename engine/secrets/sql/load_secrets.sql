-- The secret fields of one job, for the attempt that runs it.
select field, key_id, nonce, ciphertext
from atlas.job_secrets
where job_id = :job_id
  and tenant_id = :tenant_id;
