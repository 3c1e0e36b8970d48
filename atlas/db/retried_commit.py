"""Group commit that outlasts the database: a write that failed is repeated while any caller waits for it.

A caller gets an error only for what is wrong with its own item. A database that is away, is being upgraded or takes no
writes for now delays every caller and fails none.
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
# Returns a result for each item, in order. The last argument: some of the items may have been written before, by a
# call whose response was lost.
Call = Callable[[Connection, Sequence[T], bool], Awaitable[Sequence[R]]]

# How long a connection is kept when no further item arrives.
LINGER_SECONDS = 0.05
PAUSE_SECONDS = 0.1
BUSY_PAUSE_SECONDS = 0.02
# A call that takes longer waits for a connection that is silent.
SILENCE_SECONDS = 30.0

# Errors about an item's own values, which no later try mends.
_ITEM_ERRORS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
# Classes of SQLSTATE that pass: no connection, a read-only server, deadlocks, no disk or memory left, locks, an
# operator at work, input and output.
_TRANSIENT = frozenset({"08", "25", "40", "53", "55", "57", "58"})

log = get_logger("db")


class DatabaseBusy(Exception):
    """Raised by a call that could do nothing now and is to be repeated shortly."""


class RetriedCommit(GroupCommit[T, R]):
    """Writes groups of up to `largest` items with one call each, on up to `lanes` connections at the same time."""

    def __init__(self, pool: Pool, call: Call[T, R], *, largest: int, lanes: int = 1) -> None:
        super().__init__(
            pool.acquire, self._write_with_timeout, largest=largest, lanes=lanes, linger_seconds=LINGER_SECONDS
        )
        self._call = call

    def return_items(self, group: Sequence[Submitted[T, R]], error: BaseException) -> None:
        """Put the items back in front of those that wait."""
        for submitted in reversed(group):
            if not submitted.is_settled:
                submitted.is_repeated = True
                self._waiting.appendleft(submitted)

    async def recover(self, error: Exception) -> bool:
        """Pause, then try again if anything waits. An error that is not the database's ends the lane."""
        if isinstance(error, DatabaseBusy):
            await asyncio.sleep(BUSY_PAUSE_SECONDS)
        elif isinstance(error, (*UNREACHABLE, asyncpg.PostgresError)):
            log.warning("a group is written again", reason=str(error) or type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            raise error
        return bool(self._waiting)

    async def _write_with_timeout(self, conn: Connection, group: Sequence[Submitted[T, R]]) -> None:
        async with asyncio.timeout(SILENCE_SECONDS):
            await self._write_together(conn, group)

    async def _write_together(self, conn: Connection, group: Sequence[Submitted[T, R]]) -> None:
        is_repeated = any(submitted.is_repeated for submitted in group)
        try:
            results = await self._call(conn, [submitted.item for submitted in group], is_repeated)
        except Exception as error:
            if _is_transient(error):
                raise
            if len(group) > 1:
                await self._write_each(conn, group)
            elif isinstance(error, asyncpg.PostgresError) and not isinstance(error, _ITEM_ERRORS):
                # The database is being upgraded, say: the item is not at fault and waits.
                raise
            else:
                group[0].reject(error)
        else:
            for submitted, result in zip(group, results, strict=True):
                if not submitted.future.done():
                    submitted.future.set_result(result)

    async def _write_each(self, conn: Connection, group: Sequence[Submitted[T, R]]) -> None:
        """Write each item alone, so that the one at fault does not hold up the others."""
        trouble: Exception | None = None
        for submitted in group:
            try:
                await self._write_together(conn, [submitted])
            except Exception as error:
                if _is_transient(error):
                    raise
                trouble = error
        if trouble is not None:
            raise trouble


def _is_transient(error: Exception) -> bool:
    if isinstance(error, (DatabaseBusy, *UNREACHABLE)):
        return True
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "")[:2] in _TRANSIENT
