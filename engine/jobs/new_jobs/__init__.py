"""A job before it is a row: its options, its columns, its host, and the call of SQL that enqueues it."""
