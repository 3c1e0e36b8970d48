"""Helper shares: one call of a caller at a time uses a helper process, and all callers wait in turn for the few."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from atlas.api.problems import TooManyRequests
from atlas.engine.helper_process import HelperPool, Run

# How long a request waits for its caller's others, and for a helper: on a machine whose processors many programs share,
# a helper takes seconds to start, and a call to get its turn.
WAIT_SECONDS = 20.0
AGAIN_SECONDS = 2.0


class HelperShares:
    """The helper processes as requests use them."""

    def __init__(self, helpers: HelperPool) -> None:
        self._run = helpers.run
        self._free = asyncio.Semaphore(helpers.size)
        self._own: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, caller: Hashable) -> AsyncIterator[Run]:
        """A helper for as long as the block lasts; TooManyRequests if the wait for one is too long."""
        own = self._own.setdefault(caller, asyncio.Lock())
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._free)
            except TimeoutError:
                raise TooManyRequests("with documents to check at the same time", AGAIN_SECONDS) from None
            yield self._run
