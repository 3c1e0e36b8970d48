"""Deadlocks: the database ends one of those who wait for each other, and what it undid can be done again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from atlas.db.pool import Connection

# A deadlock loses nothing: even SKIP LOCKED waits when a row's updater ends at the wrong moment.
DEADLOCK_TRIES = 5

T = TypeVar("T")


async def despite_deadlocks(conn: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Do it again when it was ended by a deadlock; within a transaction that is for whoever opened it to do."""
    for _ in range(DEADLOCK_TRIES - 1):
        try:
            return await work()
        except asyncpg.DeadlockDetectedError:
            if conn.is_in_transaction():
                raise
    return await work()
