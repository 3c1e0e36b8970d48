"""Reads from a standby."""
