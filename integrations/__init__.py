"""Enqueues in the transactions of other libraries (asyncpg, psycopg, SQLAlchemy, Django), and adapters for effects."""
