"""Caches of a process, and what tells them to read again."""
