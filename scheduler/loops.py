"""Repeating a task until the scheduler stops."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError
from atlas.logs import RepeatedWarning, get_logger
from atlas.waiting import wait_for

# What passes by itself: a database that is away for a while, a deadlock, a refusal that may end.
PASSING = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)

log = get_logger("scheduler")


async def every(seconds: float, task: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Run a task, wait, run it again. What it raises is logged and does not end the loop."""
    failed = RepeatedWarning(log, "a task failed and is repeated")
    while not stop.is_set():
        try:
            await task()
        except Exception as error:
            log_repeated(failed, log, error, task=getattr(task, "__qualname__", repr(task)))
        # With jitter, so that several schedulers do not all run it at the same time.
        await wait_for(stop, within=seconds * (0.9 + 0.2 * random.random()))


def log_repeated(failed: RepeatedWarning, log: Any, error: Exception, **facts: Any) -> None:
    """Log what a frequent poll raised, as `log_failure` does, but what passes by itself not every time."""
    if isinstance(error, PASSING):
        failed.log(reason=str(error) or type(error).__name__, **facts)
    else:
        log_failure(log, failed.event, error, **facts)


def log_failure(log: Any, message: str, error: Exception, **facts: Any) -> None:
    """Log what a poll raised: a warning if it passes by itself, else an error of ours with its traceback."""
    if isinstance(error, PASSING):
        log.warning(message, reason=str(error) or type(error).__name__, **facts)
    else:
        log.error(message, reason=repr(error), exc_info=error, **facts)
