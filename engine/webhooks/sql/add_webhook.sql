-- nothing -> a webhook. Called by engine/webhooks/store.py.
insert into atlas.webhooks (id, tenant_id, url, events, description, key_id, nonce, ciphertext, created_by)
values (:id, :tenant_id, :url, :events::text[], :description, :key_id, :nonce, :ciphertext, :created_by)
returning id, tenant_id, url, events, description, is_enabled, disabled_reason, failing_since, last_error, created_by, created_at, updated_at;
