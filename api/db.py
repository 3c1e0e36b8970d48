"""Connections and transactions of requests: within a timeout, a caller's share and a tenant's row-level security."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from uuid import UUID

import asyncpg

from atlas.api.limits.connections import ConnectionShares
from atlas.api.problems import Busy
from atlas.db.pool import Connection, Pool, closed_if_silent, is_closed
from atlas.db.schema import role
from atlas.db.statements import fetch_value, statement
from atlas.errors import AtlasError
from atlas.logs import get_logger

ROW_LEVEL_SECURITY = statement("api/sql/row_level_security.sql")

# How long a read may take with all its statements. The server ends a slow statement a little earlier, so that the
# connection is terminated only if the server itself does not respond.
READ_SECONDS = 5.0
READ_TIMEOUT = "4500ms"
WRITE_TIMEOUT = "15s"
# A statement that waits for a lock (a dedupe key that another transaction holds, say) keeps a connection from others.
LOCK_TIMEOUT = "2s"
# How long a request waits for a connection of the pool.
ACQUIRE_SECONDS = 10.0
# A connection is terminated after this long: longer than any statement may take, so that only a dead one is hit.
HUNG_SECONDS = 25.0

log = get_logger("api")


class Database:
    """The pool of one process, as its requests use it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._shares = ConnectionShares(pool.get_max_size())
        self._tenant_role = role("tenant")
        self._has_row_level_security: bool | None = None

    @asynccontextmanager
    async def transaction(
        self,
        tenant_id: UUID | None,
        *,
        read_only: bool = False,
        share: Hashable = None,
        check: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Connection]:
        """A transaction that sees only one tenant's rows, or everything where no tenant is named.

        Tenant and timeouts are set for the transaction, not for the session: a pooled connection must not keep them.
        `check` is called first, with the rights of Atlas's programs.
        """
        async with self.connection(share=share, within=READ_SECONDS if read_only else None) as conn:
            settings = await self._settings(conn, tenant_id, read_only=read_only, lock_timeout=LOCK_TIMEOUT)
            with nullcontext() if read_only else _busy_when_late():
                async with conn.transaction(readonly=read_only):
                    if check is not None:
                        await check(conn)
                    await conn.execute(settings)
                    yield conn

    @asynccontextmanager
    async def flat_transaction(
        self, conn: Connection, tenant_id: UUID | None, *, lock_timeout: str
    ) -> AsyncIterator[None]:
        """A transaction on a held connection, begun in one round trip. Nothing within it may open another one."""
        settings = await self._settings(conn, tenant_id, read_only=False, lock_timeout=lock_timeout)
        with _busy_when_late():
            async with _terminated_after(HUNG_SECONDS, conn):
                await conn.execute(f"begin; {settings}")
                try:
                    yield
                except BaseException:
                    if not is_closed(conn):
                        async with closed_if_silent(conn):
                            await conn.execute("rollback")
                    raise
                await conn.execute("commit")

    @asynccontextmanager
    async def connection(
        self, *, share: Hashable = None, within: float | None = None, watched: bool = True
    ) -> AsyncIterator[Connection]:
        """A connection without a transaction, counted against the caller's share.

        A watched one is terminated when getting and using it takes longer than `within` seconds, which the wait for the
        share does not count for. One that is not watched may be kept as long as needed.
        """
        seconds = HUNG_SECONDS if within is None else within
        async with nullcontext() if share is None else self._shares.taken(share):
            began = time.monotonic()
            async with self.pool.acquire(timeout=min(ACQUIRE_SECONDS, seconds)) as conn:
                left = seconds - (time.monotonic() - began)
                async with _terminated_after(left, conn) if watched else nullcontext():
                    try:
                        yield conn
                    finally:
                        if not is_closed(conn):
                            self._shares.responded()

    async def _settings(self, conn: Connection, tenant_id: UUID | None, *, read_only: bool, lock_timeout: str) -> str:
        settings = [
            f"statement_timeout = '{READ_TIMEOUT if read_only else WRITE_TIMEOUT}'",
            f"lock_timeout = '{lock_timeout}'",
        ]
        if read_only:
            # Lists and counts have many shapes; a plan for each is cheaper than one plan for all.
            settings.append("plan_cache_mode = 'force_custom_plan'")
        if tenant_id is not None and await self._check_row_level_security(conn):
            settings += [f"atlas.tenant = '{tenant_id}'", f"role = '{self._tenant_role}'"]
        return "; ".join(f"set local {setting}" for setting in settings)

    async def _check_row_level_security(self, conn: Connection) -> bool:
        """True if the database itself separates tenants; asked once."""
        if self._has_row_level_security is None:
            self._has_row_level_security = bool(await fetch_value(conn, ROW_LEVEL_SECURITY))
            if not self._has_row_level_security:
                log.warning("row-level security is not in force; `atlas doctor` says what the database lacks")
        return self._has_row_level_security


@contextmanager
def _busy_when_late() -> Iterator[None]:
    """A write that timed out waited for other transactions. Unlike a read's, its request cannot be narrowed."""
    try:
        yield
    except (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError) as error:
        raise Busy from error


@asynccontextmanager
async def _terminated_after(seconds: float, conn: Connection) -> AsyncIterator[None]:
    """Terminate the connection if the block takes longer. What waits for it then fails as if the network were cut.

    A block that ends with an error of Atlas by then, as with NotFound, has its response.
    """
    is_late = False

    def terminate() -> None:
        nonlocal is_late
        is_late = True
        conn.terminate()

    timer = asyncio.get_running_loop().call_later(seconds, terminate)
    try:
        yield
    except AtlasError:
        raise
    except Exception as error:
        if is_late:
            # A connection that was terminated between two statements fails in many ways, also with errors of Python.
            raise TimeoutError(f"no response within {seconds:.3g} s") from error
        raise
    finally:
        timer.cancel()
