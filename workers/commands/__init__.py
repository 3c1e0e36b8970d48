"""Runs allow-listed programs, each under a supervisor, with limits on time, memory, processes and output."""
