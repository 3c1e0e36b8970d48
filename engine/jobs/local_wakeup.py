"""In-process wake-up, ahead of NOTIFY: workers of this event loop hear of a new job as soon as it is enqueued.

It is only a hint, like the notification itself: a worker that is woken without need finds nothing, and
one that is not woken polls.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from atlas.db.pool import Connection

# Those of other event loops are woken by the notification.
_listeners: list[tuple[asyncio.AbstractEventLoop, Callable[[str], None]]] = []


@contextmanager
def on_new_jobs(wake: Callable[[str], None]) -> Iterator[None]:
    """Have `wake` called whenever a job was enqueued and committed in this event loop, as with a notification."""
    listener = (asyncio.get_running_loop(), wake)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def wake_local_workers(conn: Connection, new: tuple[UUID, str] | None = None) -> None:
    """A job was enqueued over this connection. Inside a transaction nothing happens: it may be rolled back.

    `new` is the tenant and the type of one job, which the notification names, too.
    """
    if _listeners and not conn.is_in_transaction():
        here = asyncio.get_running_loop()
        payload = "" if new is None else f"{new[0]} {new[1]}"
        for loop, wake in _listeners:
            if loop is here:
                wake(payload)
