-- An inbound hook -> nothing. Called by engine/webhooks/inbound.py.
delete from atlas.inbound_hooks
where id = :id
  and (:tenant_id::uuid is null or tenant_id = :tenant_id)
returning id, tenant_id, key, event_name, description, created_by, created_at;
