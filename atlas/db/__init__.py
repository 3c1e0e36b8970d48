"""Reaches Postgres: the connection pool, statements, migrations, notifications."""
