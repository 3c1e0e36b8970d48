"""Doing a thing again and again, with rests between, until told to stop."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import asyncpg

from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.pool import UNREACHABLE

# What passes by itself: a database that is away for a while, a deadlock, a refusal that may end.
PASSING = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)

log = get_logger("scheduler")


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Rest, but not past the moment to stop."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return


async def every(seconds: float, chore: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Do a chore, rest, do it again. What passes by itself is logged and does not end it."""
    while not stop.is_set():
        try:
            await chore()
        except PASSING as error:
            name = getattr(chore, "__qualname__", repr(chore))
            log.warning("a chore failed and is repeated", chore=name, reason=str(error) or type(error).__name__)
        # A little apart, so that several schedulers do not all come at the same moment.
        await pause(stop, seconds * (0.9 + 0.2 * random.random()))
