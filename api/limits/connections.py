"""Connection shares: the requests of one tenant never use all connections of the pool.

A request whose share is used up waits for other requests of the same share, and is refused if that takes too long. So
when all connections are in use, everyone waits behind a few of each tenant. The API's own queries (readiness,
authentication, the live view) have no share, and find a connection while requests have taken all of theirs.

A frozen database uses up every share too. Then the caller is not at fault: those that wait fail with TimeoutError, as
those that have a connection do, and none of
them waits once the one before it has waited without getting a connection.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from atlas.api.problems import TooManyRequests

# How long a request waits for others of its share, and for those of all shares.
SHARE_SECONDS = 5.0
# A database that has ended no request's work for so long, while requests wait for it, counts as frozen.
STALLED_SECONDS = 2.0
AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class _TenantShare:
    """The connections that one share may use, and how many requests use or await one."""

    slots: asyncio.Semaphore
    calls: int = 0


class ConnectionShares:
    """Divides a pool of this size: one share is three tenths of it, and a fifth is kept from all shares.

    The people of a tenant have one share and its machines another; both together leave some to everyone else.
    """

    def __init__(self, size: int) -> None:
        self._each = max(2, size * 3 // 10)
        self._all = asyncio.Semaphore(max(1, size - max(1, size // 5)))
        self._shares: dict[Hashable, _TenantShare] = {}
        self._responded_at = time.monotonic()

    def responded(self) -> None:
        """Note that the database has just served a request."""
        self._responded_at = time.monotonic()

    @asynccontextmanager
    async def taken(self, key: Hashable) -> AsyncIterator[None]:
        """Permission to take a connection, for as long as the block lasts."""
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _TenantShare(asyncio.Semaphore(self._each))
        share.calls += 1
        try:
            try:
                await self._enter(share.slots)
            except TimeoutError:
                if self._is_stalled():
                    raise
                raise TooManyRequests("of this caller at the same time", AGAIN_SECONDS) from None
            try:
                await self._enter(self._all)
                try:
                    yield
                finally:
                    self._all.release()
            finally:
                share.slots.release()
        finally:
            share.calls -= 1
            if not share.calls:
                del self._shares[key]

    async def _enter(self, slots: asyncio.Semaphore) -> None:
        if not slots.locked():
            # Without the cost of a timer.
            await slots.acquire()
            return
        async with asyncio.timeout(SHARE_SECONDS):
            await slots.acquire()
        if self._is_stalled():
            slots.release()
            raise TimeoutError("the database does not respond")

    def _is_stalled(self) -> bool:
        return time.monotonic() - self._responded_at > STALLED_SECONDS
