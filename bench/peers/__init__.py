"""Measures comparable queues beside Atlas, on the same Postgres, each with its own recommended settings."""
