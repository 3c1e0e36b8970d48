"""Verifies the live audit log, and compares the tables with it."""
