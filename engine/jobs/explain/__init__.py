"""Explains in one sentence why a job does not run, or why a worker takes none."""
