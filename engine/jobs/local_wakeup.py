"""Word of a new job to the workers of this very process, ahead of the notification that reaches everyone.

Only a hint, like the notification itself: a worker that is told in vain finds nothing, one that is not told polls.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atlas.db.pool import Connection

# Who wants to hear, and in which loop; those of other loops hear the notification.
_listening: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []


@contextmanager
def told_of_new_jobs(hear: Callable[[], None]) -> Iterator[None]:
    """Have `hear` called whenever a job was enqueued and committed in this loop."""
    listener = (asyncio.get_running_loop(), hear)
    _listening.append(listener)
    try:
        yield
    finally:
        _listening.remove(listener)


def tell_nearby(conn: Connection) -> None:
    """A job was enqueued over this connection. Inside a transaction nothing is said: it may yet be undone."""
    if _listening and not conn.is_in_transaction():
        here = asyncio.get_running_loop()
        for loop, hear in _listening:
            if loop is here:
                hear()
