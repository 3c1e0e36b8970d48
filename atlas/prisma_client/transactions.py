"""`tx()`: a transaction on a connection of its own, or a savepoint in the one that is already open."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg

from atlas.db.pool import UNREACHABLE, Connection
from atlas.generated import Prisma
from atlas.generated._transactions import AsyncTransactionManager
from atlas.generated.errors import TransactionError, TransactionNotStartedError
from atlas.prisma_client.errors import translate
from atlas.prisma_client.source import Bound, Pooled, Source, closed, too_late

ClientT = TypeVar("ClientT", bound=Prisma)

# A late call is first cancelled politely; a transaction that is late and idle is then cut off.
_GRACE_SECONDS = 0.25


class Transaction(AsyncTransactionManager[ClientT]):
    """Commits when its block ends well, rolls back when it raises; `start`, `commit`, `rollback` do it by hand.

    The client it gives has the connection as `.connection`, so that hand-written SQL joins in.
    """

    def __init__(
        self,
        client: ClientT,
        source: Source,
        bind: Callable[[Bound], ClientT],
        *,
        max_wait: int | timedelta,
        timeout: int | timedelta,
    ) -> None:
        super().__init__(client=client, max_wait=max_wait, timeout=timeout)
        self._source = source
        self._bind = bind
        self._bound: Bound | None = None
        self._transaction: Any = None
        self._cut_off: asyncio.TimerHandle | None = None

    async def start(self, *, _from_context: bool = False) -> ClientT:
        """Open the transaction and give the client that works in it."""
        conn = await self._acquire()
        deadline = self._deadline()
        lock = self._source.lock if isinstance(self._source, Bound) else asyncio.Lock()
        self._transaction = conn.transaction()
        try:
            async with lock:
                await self._transaction.start()
            self._bound = Bound(conn, lock, deadline)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            raise translate(error) from error
        finally:
            if self._bound is None:
                await self._release(conn)
        if isinstance(self._source, Pooled):
            loop = asyncio.get_running_loop()
            self._cut_off = loop.call_at(deadline + _GRACE_SECONDS, conn.terminate)
        return self._bind(self._bound)

    async def commit(self) -> None:
        """Commit, unless the time is over or a statement has failed; then nothing is kept, and that is said."""
        bound = self._started()
        async with bound.lock:
            self._end(bound)
            try:
                if bound.is_late:
                    raise too_late()
                if bound.failed:
                    await self._check_alive(bound)
                await self._transaction.commit()
            except TransactionError:
                await self._roll_back(bound)
                raise
            except (asyncpg.PostgresError, *UNREACHABLE) as error:
                raise translate(error) from error
            finally:
                await self._release(bound.conn)

    async def rollback(self) -> None:
        """Keep nothing."""
        bound = self._started()
        async with bound.lock:
            self._end(bound)
            try:
                await self._roll_back(bound)
            finally:
                await self._release(bound.conn)

    def _started(self) -> Bound:
        if self._bound is None:
            raise TransactionNotStartedError
        return self._bound

    def _end(self, bound: Bound) -> None:
        if bound.ended:
            raise closed()
        bound.ended = True

    async def _check_alive(self, bound: Bound) -> None:
        """Postgres answers the commit of a failed transaction with a silent rollback, so ask before."""
        try:
            await bound.conn.execute("select 1")
        except asyncpg.InFailedSQLTransactionError as error:
            raise TransactionError("A statement failed in this transaction, so nothing was committed.") from error

    async def _roll_back(self, bound: Bound) -> None:
        if not _is_gone(bound.conn):
            await self._transaction.rollback()

    async def _acquire(self) -> Connection:
        if isinstance(self._source, Bound):
            if self._source.ended:
                raise closed()
            return self._source.conn
        try:
            return await self._source.pool.acquire(timeout=self._max_wait.total_seconds())
        except TimeoutError as error:
            raise TransactionError("Unable to start a transaction in the given time.") from error
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            raise translate(error) from error

    def _deadline(self) -> float:
        """When its time is over; a savepoint does not outlast its transaction."""
        own = asyncio.get_running_loop().time() + self._timeout.total_seconds()
        outer = self._source.deadline if isinstance(self._source, Bound) else None
        return own if outer is None else min(own, outer)

    async def _release(self, conn: Connection) -> None:
        if self._cut_off is not None:
            self._cut_off.cancel()
        if isinstance(self._source, Pooled):
            await self._source.pool.release(conn)


def _is_gone(conn: Connection) -> bool:
    """Whether the connection was cut off; the pool takes such a one back by itself."""
    try:
        return bool(conn.is_closed())
    except asyncpg.InterfaceError:
        return True
