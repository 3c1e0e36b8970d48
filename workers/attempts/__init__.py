"""Runs attempts of jobs: slots, calls of handlers, their transactions and logs."""
