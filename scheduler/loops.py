"""Doing a thing again and again, with rests between, until told to stop."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.waiting import wait_for

# What passes by itself: a database that is away for a while, a deadlock, a refusal that may end.
PASSING = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)

# No round takes so long: who waits longer for an answer waits for a line that went silent.
ANSWER_SECONDS = 60.0

log = get_logger("scheduler")


async def every(seconds: float, chore: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Do a chore, rest, do it again. What it raises is logged and does not end it."""
    while not stop.is_set():
        try:
            await chore()
        except Exception as error:
            tell(log, "a chore failed and is repeated", error, chore=getattr(chore, "__qualname__", repr(chore)))
        # A little apart, so that several schedulers do not all come at the same moment.
        await wait_for(stop, within=seconds * (0.9 + 0.2 * random.random()))


def tell(log: Any, words: str, error: Exception, **facts: Any) -> None:
    """Log what a round raised. What does not pass by itself is a fault of ours, and is told with its place."""
    if isinstance(error, PASSING):
        log.warning(words, reason=str(error) or type(error).__name__, **facts)
    else:
        log.error(words, reason=repr(error), exc_info=error, **facts)
