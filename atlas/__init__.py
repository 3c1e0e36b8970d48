"""Holds the words everyone shares: settings, errors, actors, the database and the ways to reach it."""

__version__ = "0.1.0"
