-- Where a delivery goes, for the attempt that makes it. Only for jobs that Atlas made as deliveries: who may enqueue jobs could
-- otherwise have messages of their own signed. Called by engine/webhooks/target.py. SQL, because a worker calls it, and no
-- relation joins a webhook with its deliveries.
select w.id, w.tenant_id, w.url, w.is_enabled, w.disabled_reason, w.failing_since, w.key_id, w.nonce, w.ciphertext,
  extract(epoch from clock_timestamp())::float8 as now
from atlas.webhooks w
join only atlas.jobs j on j.id = :job_id and j.source = 'system' and j.source_ref = w.id::text
where w.id = :id
  and w.tenant_id = j.tenant_id;
