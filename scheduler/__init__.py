"""Waits: all that happens because time passed."""
