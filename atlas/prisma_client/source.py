"""Where a client's statements run: on any connection of a pool, or on one that somebody holds.

`connection()` stands around every call, so it is written out by hand; a generator would cost as much as
compiling the call.
"""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias

import asyncpg

from atlas.db.pool import Connection, Pool
from atlas.generated.errors import TransactionExpiredError


@dataclass(slots=True)
class Pooled:
    """Each call borrows a connection of its own and commits by itself."""

    pool: Pool

    def connection(self) -> Any:
        """A connection for one call."""
        return self.pool.acquire()


@dataclass(slots=True)
class Bound:
    """Every call runs on this connection, inside whatever transaction is open there, one after the other.

    In a transaction of limited time, `deadline` is when it ends on the event loop's clock.
    """

    conn: Connection
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    deadline: float | None = None
    ended: bool = False
    failed: bool = False
    _limit: asyncio.Timeout | None = None  # of the call whose turn it is

    def connection(self) -> Self:
        """The connection, for one call at a time."""
        return self

    @property
    def is_late(self) -> bool:
        """Whether the transaction's time is over."""
        return self.deadline is not None and asyncio.get_running_loop().time() >= self.deadline

    async def __aenter__(self) -> Connection:
        await self.lock.acquire()
        if self.ended or self.deadline is not None:
            await self._begin_turn()
        return self.conn

    async def _begin_turn(self) -> None:
        if self.ended or self.is_late:
            self.lock.release()
            raise too_late() if self.is_late else closed()
        self._limit = asyncio.timeout_at(self.deadline)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        limit, self._limit = self._limit, None
        self.lock.release()
        if error is not None and isinstance(error, asyncpg.PostgresError | asyncio.CancelledError):
            self.failed = True
        if limit is not None:
            try:
                await limit.__aexit__(kind, error, trace)
            except TimeoutError:
                raise too_late() from error


Source: TypeAlias = Pooled | Bound


def closed() -> TransactionExpiredError:
    """The error of a transaction that is over."""
    return TransactionExpiredError("Transaction already closed: it was committed or rolled back.")


def too_late() -> TransactionExpiredError:
    """The error of a transaction that took longer than its timeout."""
    return TransactionExpiredError("Transaction already closed: it took longer than its timeout and was rolled back.")
