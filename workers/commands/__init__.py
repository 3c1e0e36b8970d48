"""Runs allow-listed programs: a supervisor for each, exact arguments, bounded in time, memory, processes and output."""
