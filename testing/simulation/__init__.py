"""Simulates jobs and workflows on a virtual clock: in many orders, with crashes and lost answers."""
