"""Runs programs: each under a supervisor of its own that reads it, bounds it and ends it with all it started."""
