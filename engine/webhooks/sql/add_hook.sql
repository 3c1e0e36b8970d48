-- nothing -> an inbound hook. Called by engine/webhooks/inbound.py.
insert into atlas.inbound_hooks (id, tenant_id, key, event_name, description, key_id, nonce, ciphertext, created_by)
values (:id, :tenant_id, :key, :event_name, :description, :key_id, :nonce, :ciphertext, :created_by)
returning id, tenant_id, key, event_name, description, created_by, created_at;
