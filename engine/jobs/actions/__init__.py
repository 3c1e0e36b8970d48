"""Operators' actions: cancel, retry, delete or discard one job, many, or all that a filter matches."""
