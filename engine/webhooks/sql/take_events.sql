-- The next events of the audit log, as deliveries to webhooks. Looks across tenants: there is one audit log.
-- Called by engine/webhooks/deliver.py. SQL, because a function does it.
select deliveries, more from atlas.take_webhook_events(:limit);
