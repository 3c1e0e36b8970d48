"""Decides about command jobs: definitions, their argv and their environment."""
