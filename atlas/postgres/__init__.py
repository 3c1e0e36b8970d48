"""Runs the embedded Postgres server."""
