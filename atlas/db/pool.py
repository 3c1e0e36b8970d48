"""The connection pool on Postgres, shared by Prisma calls and hand-written SQL."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeAlias
from weakref import WeakSet

import asyncpg

from atlas.db.failures import connection_error, explained, public_url
from atlas.db.lost_response import WaitingConnection, WatchedCursor
from atlas.db.pooler import PooledConnection, is_behind_pooler, is_pooled, local_settings
from atlas.db.schema import role, schema_name
from atlas.db.servers import connect_to_primary
from atlas.errors import UnsupportedPostgres

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
# For reads that need no transaction.
Queryable: TypeAlias = "Connection | Pool"

OLDEST_POSTGRES = 15
CONNECT_SECONDS = 10
# How long the server may take to respond to a rollback or a release, and when all connections are closed.
RELEASE_SECONDS = 3.0
CLOSE_SECONDS = 10.0
# A connection that has not responded by then is taken for dead: for a short transaction, and for a batch of a sweep.
TRANSACTION_SECONDS = 60.0
BATCH_SECONDS = 600.0

# Every session of Atlas frees its locks within a minute of losing its process or its network: when its transaction was
# idle for this long, when what the server sent is not acknowledged, and when nothing answers the server's probes.
IDLE_TRANSACTION = "45s"
_LOST_NETWORK = {
    "tcp_user_timeout": "30s",
    "tcp_keepalives_idle": "15s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
}

# What asyncpg raises when a server cannot be reached, or is starting or stopping.
UNREACHABLE = (
    OSError,
    TimeoutError,
    ssl.SSLError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
# What a rollback raises on a connection that is closed, before it or meanwhile. asyncpg asks parts of it that are gone.
_ROLLBACK_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, AttributeError, OSError)
# All of this process that are not collected yet.
_connections: WeakSet[Any] = WeakSet()
# A login without the role may not even look into the schema.
_MAY_ACT_AS_ENGINE = """
select case when exists (select from pg_roles where rolname = $1 and pg_has_role(current_user, oid, 'member'))
  then to_regclass($2) is not null and has_table_privilege($1, to_regclass($2), 'update') else false end"""


async def open_pool(
    url: str,
    *,
    size: int = 10,
    application: str = "atlas",
    lock_timeout: str | None = None,
    statement_seconds: float | None = None,
    standby: bool = False,
    check: Callable[[Any], Awaitable[None]] | None = None,
) -> Pool:
    """Open a pool on a supported server. Its connections act as the role atlas_engine if the login may.

    Connections to a standby are not kept, unless one is to be read from: `standby`. `check` may refuse a new one by
    what it raises; it is not called for those of a pooler. A server that stops responding meanwhile is unreachable.
    """
    limits: dict[str, Any] = {"lock_timeout": lock_timeout, "statement_seconds": statement_seconds}
    try:
        async with asyncio.timeout(TRANSACTION_SECONDS):
            pooled, options = await _options_for(url, application, limits)
            init = None if pooled else check
            return await _make_pool(url, least=1, most=size, standby=standby, init=init, **options)
    except (*UNREACHABLE, asyncpg.PostgresError) as error:
        raise explained(url, error) from error


async def _options_for(url: str, application: str, limits: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether a pooler is at this address, and the options of a pool there. Refuses a server that is too old."""
    conn = await connect(url, application=application, **limits)
    try:
        version = conn.get_server_version().major
        pooled = is_behind_pooler(conn)
        as_engine = await conn.fetchval(_MAY_ACT_AS_ENGINE, role("engine"), f"{schema_name()}.jobs")
    finally:
        await conn.close()
    if version < OLDEST_POSTGRES:
        raise UnsupportedPostgres(
            f"The server at {public_url(url)} runs PostgreSQL {version}; Atlas needs {OLDEST_POSTGRES} or newer.",
            remedy="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )
    return pooled, _options(application, pooled=pooled, role=role("engine") if as_engine else None, **limits)


async def open_aside(pool: Pool, url: str, *, size: int, application: str = "atlas") -> Pool:
    """Open a second pool with the same role as `pool`. It makes connections only when they are needed."""
    async with borrow(pool, within=TRANSACTION_SECONDS) as conn:
        role = await conn.fetchval("select nullif(current_setting('role'), 'none')")
        pooled = is_behind_pooler(conn)
    return await _make_pool(url, least=0, most=size, **_options(application, pooled=pooled, role=role))


async def open_own_login(url: str, *, size: int, application: str = "atlas") -> Pool:
    """Open a pool whose connections act as their login, with its search path. It connects only when it is needed."""
    conn = await connect(url, application=application)
    pooled = is_behind_pooler(conn)
    await conn.close()
    return await _make_pool(url, least=0, most=size, **_options(application, pooled=pooled))


async def connect(
    url: str, *, application: str = "atlas", lock_timeout: str | None = None, statement_seconds: float | None = None
) -> Any:
    """Open one connection outside of any pool, for listening and for work that needs its own session.

    A statement to which the server has not responded after `statement_seconds` raises TimeoutError.
    """
    limits: dict[str, Any] = {"lock_timeout": lock_timeout, "statement_seconds": statement_seconds}
    try:
        with suppress(asyncpg.ProtocolViolationError):
            # A pooler may refuse the settings, or ignore them without a word.
            conn = await connect_to_primary(url, **_options(application, **limits))
            if not await is_pooled(conn):
                return conn
            conn.terminate()
        return await connect_to_primary(url, **_options(application, pooled=True, **limits))
    except (*UNREACHABLE, asyncpg.PostgresError, ValueError, asyncpg.ClientConfigurationError) as error:
        raise explained(url, error) from error


def cut_off_connections() -> None:
    """In a forked child: replace its ends of all connections, which belong to the sessions of its parent."""
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        for conn in _connections:
            shared = None if conn._transport is None else conn._transport.get_extra_info("socket")
            if shared is not None and shared.fileno() >= 0:
                # Not closed: the number would be given to another file, which a transport would then write to.
                os.dup2(ours.fileno(), shared.fileno(), inheritable=False)


@asynccontextmanager
async def borrow(pool: Pool, *, within: float) -> AsyncIterator[Connection]:
    """Borrow a connection for a block. Raises TimeoutError if waiting for it and the block take longer than this."""
    async with asyncio.timeout(within), pool.acquire() as conn:
        yield conn


def commit_with(conn: Connection, statement: str) -> None:
    """Let the commit of the open transaction send this statement before it, in the same message.

    The connection goes back to its pool right afterwards: the message resets it, too.
    """
    getattr(conn, "_con", conn).before_commit = statement


@asynccontextmanager
async def closed_if_silent(conn: Connection) -> AsyncIterator[None]:
    """For cleaning up: if the server does not respond to the block in time, close the connection and go on."""
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            yield
    except TimeoutError:
        conn.terminate()


def is_closed(conn: Connection) -> bool:
    """Whether a connection is closed. One that was terminated while a pool lent it raises when it is asked itself."""
    try:
        return bool(conn.is_closed())
    except asyncpg.InterfaceError:
        return True


class _Pool(asyncpg.Pool):  # type: ignore[misc]  # asyncpg brings no types
    """A pool in which a connection that went silent, or leads to a standby, does not keep its slot.

    A statement that is cancelled leaves its connection waiting for the server to confirm it. asyncpg waits for that
    without a limit, also when the connection is released: over a network that drops everything, for ever, and no
    timeout around the statement ends it. This pool closes the connection instead, which frees the slot for a new one.

    During a failover a proxy, or an address without target_session_attrs, may lead to a server that is a standby then,
    and stays one. Every write over such a connection would fail for as long as the pool lends it.
    """

    keeps_standbys = False
    # Called when it is closed: an embedded server runs for as long as something uses it.
    on_close: Callable[[], None] | None = None

    async def release(self, connection: Any, *, timeout: float | None = None) -> None:
        """Take a connection back, or close it if it leads to a standby or the server does not respond in time."""
        if not self.keeps_standbys and _leads_to_standby(connection._con):
            connection._con.terminate()
        # The borrower's work is done or has raised. Closing the connection changes neither, so nothing is raised.
        with suppress(TimeoutError):
            await super().release(connection, timeout=RELEASE_SECONDS if timeout is None else timeout)

    async def close(self) -> None:
        """Close every connection, without a goodbye where the server does not respond in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await super().close()
        if self.on_close is not None:
            self.on_close()


class _StandbyPool(_Pool):
    """A pool to read from a standby."""

    keeps_standbys = True


def _leads_to_standby(conn: Any) -> bool:
    """By what the server reported last: it does so by itself, also when it is promoted."""
    return conn is not None and not conn.is_closed() and getattr(conn.get_settings(), "in_hot_standby", "off") == "on"


class _Connection(WaitingConnection):
    """A connection whose transactions are rolled back in time, and that is closed in time."""

    # A statement that is sent in one message with the next commit, and with what the pool resets afterwards.
    before_commit = ""
    _is_reset = False

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        _connections.add(self)
        if not issubclass(type(self), PooledConnection):
            self.watch()

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:
        """As asyncpg's. A connection that broke raises a connection error."""
        is_last = bool(self.before_commit) and query == "COMMIT;"
        if is_last:
            query, self.before_commit = f"{self.before_commit} {query} {self.get_reset_query()}", ""
        self.waiting_since = monotonic()
        try:
            status: str = await super().execute(query, *arguments, timeout=timeout)
            self._is_reset = is_last
            return status
        except asyncpg.InternalClientError as error:
            raise self._broken(error) from error
        finally:
            self.waiting_since = None

    async def _execute(self, *arguments: Any, **options: Any) -> Any:
        """What every fetch calls."""
        self.waiting_since = monotonic()
        try:
            return await super()._execute(*arguments, **options)
        except asyncpg.InternalClientError as error:
            raise self._broken(error) from error
        finally:
            self.waiting_since = None

    async def _executemany(self, *arguments: Any, **options: Any) -> Any:
        self.waiting_since = monotonic()
        try:
            return await super()._executemany(*arguments, **options)
        except asyncpg.InternalClientError as error:
            raise self._broken(error) from error
        finally:
            self.waiting_since = None

    def cursor(self, *arguments: Any, **options: Any) -> WatchedCursor:
        """As asyncpg's."""
        return WatchedCursor(self, super().cursor(*arguments, **options))

    def get_reset_query(self) -> str:
        """What a pool sends before it lends the connection again: nothing right after a commit that has sent it."""
        if self._is_reset:
            self._is_reset = False
            return ""
        query: str = super().get_reset_query()
        return query

    def _broken(self, error: asyncpg.InternalClientError) -> Exception:
        failure = connection_error(error)
        if failure is not error:
            self.terminate()
        return failure

    async def close(self, *, timeout: float | None = None) -> None:
        """Close it, without a goodbye where the server does not respond in time."""
        with suppress(TimeoutError):
            await super().close(timeout=RELEASE_SECONDS if timeout is None else timeout)

    def transaction(self, *, isolation: Any = None, readonly: bool = False, deferrable: bool = False) -> Any:
        """A transaction, as asyncpg's."""
        return _Transaction(self, isolation, readonly, deferrable)


class _Pooled(PooledConnection, _Connection):
    """Both: behind a pooler, and with timeouts."""


class _Transaction(asyncpg.transaction.Transaction):  # type: ignore[misc]
    """A transaction whose rollback has a timeout. The caller sees what raised inside, not that the rollback failed."""

    def __init__(self, conn: Connection, *args: Any) -> None:
        super().__init__(conn, *args)
        self._conn = conn

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                await super().__aexit__(kind, error, trace)
            except asyncpg.PostgresError:
                if not is_closed(self._conn) and self._conn.is_in_transaction():
                    # What was sent with the commit was refused.
                    async with closed_if_silent(self._conn):
                        await self._conn.execute("ROLLBACK;")
                raise
            return
        try:
            async with closed_if_silent(self._conn):
                await super().__aexit__(kind, error, trace)
        except _ROLLBACK_ERRORS:
            if not is_closed(self._conn):
                raise


async def _make_pool(url: str, *, least: int, most: int, standby: bool = False, **options: Any) -> Pool:
    """As `asyncpg.create_pool`, with its defaults, for our own class."""
    pool: Pool = await (_StandbyPool if standby else _Pool)(
        url,
        min_size=least,
        max_size=most,
        max_queries=50_000,
        max_inactive_connection_lifetime=300.0,
        loop=None,
        record_class=asyncpg.Record,
        connect=connect_to_primary,
        **options,
    )
    return pool


def _options(
    application: str,
    *,
    pooled: bool = False,
    role: str | None = None,
    lock_timeout: str | None = None,
    statement_seconds: float | None = None,
) -> dict[str, Any]:
    chosen = {"jit": "off", "lock_timeout": lock_timeout, "role": role}
    settings = {name: value for name, value in chosen.items() if value is not None}
    settings["idle_in_transaction_session_timeout"] = IDLE_TRANSACTION
    own = {"application_name": application}
    options = {"timeout": CONNECT_SECONDS, "command_timeout": statement_seconds}
    if not pooled:
        return options | {"connection_class": _Connection, "server_settings": own | settings | _LOST_NETWORK}
    kind = type("_Pooled", (_Pooled,), {"settings": local_settings(settings)})
    # Of the settings with which a connection begins, a pooler takes its name; its own network ends there.
    return options | {"connection_class": kind, "server_settings": own, "statement_cache_size": 0}
