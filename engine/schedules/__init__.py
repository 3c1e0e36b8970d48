"""Schedules: recurring functions, schedules in code, time zones."""
