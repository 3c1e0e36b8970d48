"""Access to Postgres: the connection pool, statements, migrations, notifications."""
