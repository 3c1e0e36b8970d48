"""Measures the queue while something holds Postgres's xmin horizon, beside the same load without a holder."""
