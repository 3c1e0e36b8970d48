"""How long a connection may keep a request: a network that swallows everything, answers too, says nothing by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from atlas.db.pool import Connection, Pool

# How long a request waits for a connection before it is told to come back.
ACQUIRE_SECONDS = 10.0
# Longer than any statement may take, so that whoever is silent for so long is gone.
HUNG_SECONDS = 25.0


@asynccontextmanager
async def borrowed(pool: Pool, *, watched: bool = True) -> AsyncIterator[Connection]:
    """A connection within a bearable time, given back in one; who does more than some statements watches it itself."""
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as conn:
        if watched:
            async with ended_if_hung(conn):
                yield conn
        else:
            yield conn


@asynccontextmanager
async def ended_if_hung(conn: Connection) -> AsyncIterator[None]:
    """End the connection if the block takes too long: what waits for it then fails as if the line were cut."""
    timer = asyncio.get_running_loop().call_later(HUNG_SECONDS, conn.terminate)
    try:
        yield
    finally:
        timer.cancel()
