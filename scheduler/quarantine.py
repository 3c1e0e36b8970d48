"""Going around what cannot be fired, so that one trigger or event does not hold up all the others.

A batch that fails is repeated once as it was: mostly a connection was lost, and nothing in it is to blame. If it fails
again, it is repeated one by one. What then fails alone is left out for a while, longer each time until it fires:
nothing of it is lost, and when its reason is gone it fires.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.triggers import Round, Unfired
from atlas.logs import get_logger

# Shorter than the age at which a due time counts as missed, at first.
SHORTEST_SECONDS = 10.0
LONGEST_SECONDS = 600.0
BRIEF_ROUNDS = 100

log = get_logger("scheduler.firing")


class Quarantine:
    """One kind of firing, and what of it is left out for now."""

    def __init__(self, fire: Callable[..., Awaitable[Round]]) -> None:
        self._fire = fire
        # So many are to be fired one by one.
        self._singly = 0
        # The last call failed, and this one may go well.
        self._repeats = False
        # Until when each is left out, and for how long it was.
        self._out: dict[UUID, tuple[float, float]] = {}

    async def fire(self, conn: Connection, *, late_by: float) -> Round:
        """Fire what is due, without what is left out. Where that is `Unfired`, the next call is more careful."""
        now = asyncio.get_running_loop().time()
        options: dict[str, Any] = {"without": [id for id, (until, _) in self._out.items() if until > now]}
        if self._singly:
            options["limit"] = 1
        try:
            found = await self._fire(conn, late_by=late_by, **options)
        except Unfired as error:
            self._learn(error.held)
            raise
        self._repeats = False
        if not found.closed:
            self._out = {id: one for id, one in self._out.items() if one[0] > now}
        self._singly = max(0, self._singly - 1) if found.next_in == 0.0 else 0
        return found

    def be_brief(self) -> None:
        """A round took too long: fire one by one for a while, so that something of it is done."""
        self._singly = max(self._singly, BRIEF_ROUNDS)

    def _learn(self, held: Sequence[UUID]) -> None:
        now = asyncio.get_running_loop().time()
        self._out = {id: one for id, one in self._out.items() if one[0] + LONGEST_SECONDS > now}
        before = [id for id in held if id in self._out]
        if not before and not self._repeats:
            self._repeats = True
            return
        # Of many, those that failed before; where there are none, each is tried alone.
        blamed = held if len(held) == 1 else before
        self._singly = 0 if blamed else len(held)
        for id in blamed:
            _, last = self._out.get(id, (0.0, SHORTEST_SECONDS / 2))
            seconds = min(2 * last, LONGEST_SECONDS)
            self._out[id] = now + seconds, seconds
            log.error("left out for a while: it cannot be fired", id=str(id), seconds=seconds)
