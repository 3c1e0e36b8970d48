"""Connections are shared: the calls of one tenant never keep all of them, and some are left for what is nobody's call.

Who has as many in use as one share may have waits for its own calls to end, and is told to come back if that takes too
long. So everyone else waits, where all are in use, behind few of each. Whether the database answers, who calls, what
is shown live: such looks have no share, and find a connection while calls have taken all of theirs.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from atlas.api.db import ACQUIRE_SECONDS
from atlas.api.errors import TooManyRequests

# How long a call waits for others of its share.
SHARE_SECONDS = 5.0
AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class _TenantShare:
    """The connections that one share may have in use, and how many calls use or await one."""

    places: asyncio.Semaphore
    calls: int = 0


class ConnectionShares:
    """The connections of a pool of this size, as calls share them: a fifth is for no call, three tenths are one share.

    The people of a tenant have one and its machines another; both together leave some to everyone else.
    """

    def __init__(self, size: int) -> None:
        self._each = max(2, size * 3 // 10)
        self._all = asyncio.Semaphore(max(1, size - max(1, size // 5)))
        self._shares: dict[Hashable, _TenantShare] = {}

    @asynccontextmanager
    async def taken(self, key: Hashable) -> AsyncIterator[None]:
        """Leave to take a connection, for as long as the block lasts."""
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _TenantShare(asyncio.Semaphore(self._each))
        share.calls += 1
        try:
            try:
                await _enter(share.places, SHARE_SECONDS)
            except TimeoutError:
                raise TooManyRequests("of this caller at the same time", AGAIN_SECONDS) from None
            try:
                await _enter(self._all, ACQUIRE_SECONDS)
                try:
                    yield
                finally:
                    self._all.release()
            finally:
                share.places.release()
        finally:
            share.calls -= 1
            if not share.calls:
                del self._shares[key]


async def _enter(places: asyncio.Semaphore, seconds: float) -> None:
    if not places.locked():
        # At once, and without the cost of a timer.
        await places.acquire()
        return
    async with asyncio.timeout(seconds):
        await places.acquire()
