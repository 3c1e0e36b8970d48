-- The secret fields of a job that is made in this transaction. SQL, because it is a batch, on the way of an enqueue.
insert into atlas.job_secrets (job_id, tenant_id, key_id, field, nonce, ciphertext)
select :job_id, :tenant_id, :key_id, u.field, u.nonce, u.ciphertext
from unnest(:fields::text[], :nonces::bytea[], :ciphertexts::bytea[]) u(field, nonce, ciphertext);
