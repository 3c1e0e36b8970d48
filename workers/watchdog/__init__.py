"""Finds a handler that blocks the event loop, and ends a worker whose loop stands still."""
