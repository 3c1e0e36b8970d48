"""Outgoing HTTP: its clients, the transport for addresses that tenants choose, and signatures for S3."""
