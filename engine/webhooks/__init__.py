"""Webhooks: signatures and addresses of messages over HTTP."""
