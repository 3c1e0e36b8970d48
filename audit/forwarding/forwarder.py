"""Forwards the audit log from the place where a forwarder stopped, and stores the place after each chunk.

The place is in the database and not in a file: another machine can go on where one was lost, the metrics and
`atlas doctor` see every forwarder, and a second one under the same name is noticed. It is stored after the destination
has the rows, so rows are sent again after a crash and never left out. Only sealed rows are read.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from atlas.audit.forwarding.destinations import Destination, Undelivered
from atlas.audit.forwarding.places import ForwarderStatus, find_forwarder, store_place
from atlas.audit.forwarding.sealed_rows import read_sealed
from atlas.db.pool import UNREACHABLE, Pool
from atlas.logs import get_logger

# Rows sent together.
MAX_ROWS = 500
POLL_SECONDS = 1.0
# Between two attempts to send what was not taken.
FIRST_PAUSE = 1.0
MAX_PAUSE = 60.0
# How long a run without --follow tries.
MAX_SECONDS = 60.0

log = get_logger("audit.forward")


@dataclass(frozen=True, slots=True)
class Progress:
    """What one chunk brought."""

    sent: int
    number: int | None
    status: ForwarderStatus


async def forward(pool: Pool, name: str, destination: Destination, *, max_rows: int) -> AsyncIterator[Progress]:
    """Send what is sealed and was not sent before, chunk by chunk. Undelivered if the destination does not take it."""
    async with pool.acquire() as conn:
        status = await find_forwarder(conn, name)
        place = status.place
        async for chunk in read_sealed(conn, place, most=max_rows):
            if chunk.pruned:
                log.error("rows were removed before they were forwarded", forwarder=name, rows=chunk.pruned)
            if chunk.rows:
                await destination.send(chunk.rows)
            await store_place(conn, name, place, chunk.place, sent=len(chunk.rows))
            place = chunk.place
            if chunk.rows:
                yield Progress(len(chunk.rows), chunk.rows[-1].number, await find_forwarder(conn, name))


async def keep_forwarding(
    pool: Pool, name: str, destination: Destination, *, stop: asyncio.Event, follow: bool
) -> AsyncIterator[Progress]:
    """Forward until everything sealed was sent, or with `follow` until stopped. What is not taken is sent again.

    Without `follow`, Undelivered after a minute in which the destination took nothing.
    """
    pause, taken_at = FIRST_PAUSE, time.monotonic()
    while not stop.is_set():
        try:
            async for progress in forward(pool, name, destination, max_rows=MAX_ROWS):
                pause, taken_at = FIRST_PAUSE, time.monotonic()
                yield progress
                if stop.is_set():
                    return
            wait = POLL_SECONDS
            if not follow:
                return
        except Undelivered as error:
            if not follow and time.monotonic() - taken_at >= MAX_SECONDS:
                raise
            log.warning("rows were not forwarded and are sent again", forwarder=name, reason=error.message, pause=pause)
            wait, pause = pause, min(pause * 2, MAX_PAUSE)
        except UNREACHABLE as error:
            if not follow:
                raise
            log.warning("the database cannot be reached", forwarder=name, reason=str(error) or type(error).__name__)
            wait, pause = pause, min(pause * 2, MAX_PAUSE)
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue
