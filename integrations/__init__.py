"""Enqueues in the transactions of other libraries: asyncpg, psycopg, SQLAlchemy and Django."""
