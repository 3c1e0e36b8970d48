"""Keeps secret values of jobs encrypted, and out of everything that is shown."""
