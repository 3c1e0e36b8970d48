"""Command jobs: definitions, their argv and their environment."""
