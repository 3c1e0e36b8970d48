"""Repeats what Postgres ended by a deadlock: nothing of it was done, so it can be done again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from atlas.db.pool import Connection

# Even SKIP LOCKED waits when the transaction that updates a row ends just then, so any statement can meet a deadlock.
DEADLOCK_TRIES = 5

T = TypeVar("T")


async def retry_deadlocks(conn: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Run `work`, again after a deadlock. Within a transaction the error is raised: its owner has to repeat it."""
    for _ in range(DEADLOCK_TRIES - 1):
        try:
            return await work()
        except asyncpg.DeadlockDetectedError:
            if conn.is_in_transaction():
                raise
    return await work()
