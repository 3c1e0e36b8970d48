"""Leaves out what cannot be fired, so that one trigger or event does not block all others.

A batch that fails is repeated once as it was: mostly a connection was lost, and no trigger is at fault. If it fails
again, its members are fired one by one. A member that fails alone is left out for a while, longer each time until it
fires. Nothing of it is lost: it fires when its cause is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.triggers.fire_schedules import Polled, Unfired
from atlas.logs import get_logger

# The first one is shorter than the age at which a due time counts as missed.
MIN_SECONDS = 10.0
MAX_SECONDS = 600.0
SINGLE_FIRINGS = 100

log = get_logger("scheduler.firing")


class Quarantine:
    """One kind of firing, and the triggers or events that are left out for now."""

    def __init__(self, fire: Callable[..., Awaitable[Polled]]) -> None:
        self._fire = fire
        # How many are to be fired one by one.
        self._singly = 0
        # The last call failed, and this one repeats it.
        self._repeats = False
        # Until when each is left out, and for how many seconds in all.
        self._out: dict[UUID, tuple[float, float]] = {}

    async def fire(self, conn: Connection, *, late_by: float) -> Polled:
        """Fire what is due, without what is left out. After an `Unfired`, the next calls find out what is at fault."""
        now = asyncio.get_running_loop().time()
        options: dict[str, Any] = {"without": [id for id, (until, _) in self._out.items() if until > now]}
        if self._singly:
            options["limit"] = 1
        try:
            result = await self._fire(conn, late_by=late_by, **options)
        except Unfired as error:
            self._learn(error.held)
            raise
        self._repeats = False
        if not result.closed:
            self._out = {id: failure for id, failure in self._out.items() if failure[0] > now}
        self._singly = max(0, self._singly - 1) if result.next_in == 0.0 else 0
        return result

    def fire_singly(self) -> None:
        """After a timeout, fire one by one for a while, so that some of it is done."""
        self._singly = max(self._singly, SINGLE_FIRINGS)

    def _learn(self, held: Sequence[UUID]) -> None:
        now = asyncio.get_running_loop().time()
        self._out = {id: failure for id, failure in self._out.items() if failure[0] + MAX_SECONDS > now}
        before = [id for id in held if id in self._out]
        if not before and not self._repeats:
            self._repeats = True
            return
        # Of a batch, the members that failed before. If there are none, each is tried alone.
        blamed = held if len(held) == 1 else before
        self._singly = 0 if blamed else len(held)
        for id in blamed:
            _, last = self._out.get(id, (0.0, MIN_SECONDS / 2))
            seconds = min(2 * last, MAX_SECONDS)
            self._out[id] = now + seconds, seconds
            log.error("it cannot be fired and is left out for a while", id=str(id), seconds=seconds)
