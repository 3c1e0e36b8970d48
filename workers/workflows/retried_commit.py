"""Group commit that outlasts the database: a write that failed is repeated while any caller waits for it.

A caller gets an error only for what is wrong with its own item. A database that is away, is being upgraded or takes no
writes for now delays everyone and fails no run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg

from atlas.db.group_commit import GroupCommit, Submitted
from atlas.db.pool import UNREACHABLE, Connection, Pool
from atlas.logs import get_logger

T = TypeVar("T")
R = TypeVar("R")
# The last argument: some of the items may have been written before, and the response was lost.
Call = Callable[[Connection, Sequence[T], bool], Awaitable[Sequence[R]]]

# How long a lane keeps its connection when nothing more arrives.
LINGER_SECONDS = 0.05
PAUSE_SECONDS = 0.1
# A connection that is silent for so long is dropped.
SILENCE_SECONDS = 30.0

# Errors about an item's own values, which no later try mends.
OWN_FAULTS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
# Classes of SQLSTATE that pass: no connection, a read-only server, deadlocks, no disk or memory left, locks, an
# operator at work, input and output.
PASSING = frozenset({"08", "25", "40", "53", "55", "57", "58"})

log = get_logger("engine")


class AskAgain(Exception):
    """The database cannot say now; nothing was done."""


class RetriedCommit(GroupCommit[T, R]):
    """Writes groups of up to `most` items with one call each, on up to `lanes` connections at the same time."""

    def __init__(self, pool: Pool, call: Call[T, R], *, most: int, lanes: int = 1) -> None:
        super().__init__(pool.acquire, self._send, largest=most, lanes=lanes, linger_seconds=LINGER_SECONDS)
        self._call = call
        self._again = False

    def return_items(self, group: Sequence[Submitted[T, R]], error: BaseException) -> None:
        """Put the items back in front of those that wait."""
        self._waiting.extendleft(submitted for submitted in reversed(group) if not submitted.is_settled)
        self._again = True

    async def recover(self, error: Exception) -> bool:
        """Pause, then try again if anything waits. An error that is not the database's ends the lane."""
        if isinstance(error, AskAgain):
            await asyncio.sleep(PAUSE_SECONDS / 5)
        elif isinstance(error, (*UNREACHABLE, asyncpg.PostgresError)):
            log.warning("a group of steps is written again", reason=str(error) or type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            raise error
        return bool(self._waiting)

    async def _send(self, conn: Connection, group: Sequence[Submitted[T, R]]) -> None:
        again, self._again = self._again, False
        async with asyncio.timeout(SILENCE_SECONDS):
            await self._call_for(conn, group, again)

    async def _call_for(self, conn: Connection, group: Sequence[Submitted[T, R]], again: bool) -> None:
        try:
            results = await self._call(conn, [submitted.item for submitted in group], again)
        except asyncpg.UniqueViolationError:
            if again:
                raise
            await self._call_for(conn, group, True)
        except (AskAgain, *UNREACHABLE):
            raise
        except Exception as error:
            if _passes(error):
                raise
            if len(group) > 1:
                await self._call_one_by_one(conn, group, again)
            elif isinstance(error, asyncpg.PostgresError) and not isinstance(error, OWN_FAULTS):
                # A database that is being upgraded, say. The run is not at fault and waits.
                raise
            else:
                group[0].reject(error)
        else:
            for submitted, result in zip(group, results, strict=True):
                submitted.resolve(result)

    async def _call_one_by_one(self, conn: Connection, group: Sequence[Submitted[T, R]], again: bool) -> None:
        """Something is wrong with one of the items: only that one gets the error, or is written again."""
        trouble: asyncpg.PostgresError | None = None
        for submitted in group:
            try:
                await self._call_for(conn, [submitted], again)
            except asyncpg.PostgresError as error:
                if _passes(error):
                    raise
                trouble = error
        if trouble is not None:
            raise trouble


def _passes(error: Exception) -> bool:
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "")[:2] in PASSING
