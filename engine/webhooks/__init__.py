"""Webhooks: signatures, the subscriptions of tenants, and addresses that others post events to."""
