"""Enqueue over a connection of asyncpg that is the application's own: with its login, in its transaction."""

from atlas.engine.jobs.new_jobs.enqueue_call import enqueue

__all__ = ["enqueue"]
