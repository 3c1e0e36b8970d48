"""Ends the wait for a response that was lost.

TCP notices a machine that vanished. It does not notice a proxy or a tunnel that keeps both of its ends open and passes
nothing: the server has responded and is idle, and the program waits. A statement may take hours, so a time limit does
not tell. A connection that waits for long is looked at over another one: if its session is idle or gone, its response
was lost, and the connection is closed. Behind a pooler sessions have no name; through a local socket nothing is lost.
"""

import asyncio
import time
from typing import Any
from weakref import ref

import asyncpg

from atlas.logs import get_logger

LOOK_SECONDS = 15.0
CONNECT_SECONDS = 10.0
# A session that is idle at two looks has responded. A server that cannot be asked is given twice as many.
IDLE, NOT_REACHED, LOST = 2, 1, 4

_SESSIONS_ARE_IDLE = """
select not exists (
  select from pg_catalog.pg_stat_activity
  where (pid = $1 or application_name = $2) and (state is null or state not like 'idle%'))"""

_END_SESSIONS = """
select count(pg_catalog.pg_terminate_backend(pid)) from pg_catalog.pg_stat_activity
where starts_with(application_name, $1) and datname = current_database() and pid <> pg_catalog.pg_backend_pid()"""

log = get_logger("database")
# Kept until they end.
_looks: set[asyncio.Task[None]] = set()


class WaitingConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg brings no types
    """A connection that is looked at while it waits."""

    # On the monotonic clock. None: it waits for nothing.
    waiting_since: float | None = None
    # How sure it is that the response is lost.
    doubt = 0

    def watch(self) -> None:
        """Look at it from time to time, until it is closed."""
        if not isinstance(self._addr, str):
            self._loop.call_later(LOOK_SECONDS, _look, ref(self))

    async def look(self) -> None:
        """Ask the server about the session, and close the connection when its response is lost."""
        since, state = self.waiting_since, NOT_REACHED
        host, port = self._addr
        login = {"user": self._params.user, "password": self._params.password, "database": self._params.database}
        ssl = self._params.ssl if self._protocol.is_ssl else False
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                conn = await asyncpg.connect(host=host, port=port, ssl=ssl, **login)
                state = await _idle(conn, self.get_server_pid(), None)
        except asyncpg.TooManyConnectionsError:
            return
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        if self.is_closed() or self.waiting_since != since:
            return
        self.doubt = self.doubt + state if state else 0
        if self.doubt >= LOST:
            log.warning("the response of the server was lost; its connection is closed")
            self.terminate()


async def sessions_are_idle(conn: Any, application: str) -> bool:
    """Whether no session of this name works for its client. Closes the connection."""
    return bool(await _idle(conn, None, application))


async def end_sessions(conn: Any, prefix: str) -> None:
    """End the sessions of this database whose name begins so. Closes the connection."""
    try:
        await conn.fetchval(_END_SESSIONS, prefix)
    finally:
        conn.terminate()


async def _idle(conn: Any, pid: int | None, application: str | None) -> int:
    try:
        return IDLE if await conn.fetchval(_SESSIONS_ARE_IDLE, pid, application) else 0
    finally:
        conn.terminate()


def _look(watched: "ref[WaitingConnection]") -> None:
    conn = watched()
    if conn is None or conn.is_closed():
        return
    if conn.waiting_since is None or time.monotonic() - conn.waiting_since < LOOK_SECONDS:
        conn.doubt = 0
    else:
        task = conn._loop.create_task(conn.look())
        _looks.add(task)
        task.add_done_callback(_looks.discard)
    conn._loop.call_later(LOOK_SECONDS, _look, watched)


class WatchedCursor:
    """The cursor of a connection that waits for each part of its rows."""

    def __init__(self, conn: WaitingConnection, cursor: Any) -> None:
        self._conn = conn
        self._cursor = cursor

    def __await__(self) -> Any:
        return self._cursor.__await__()

    async def __aiter__(self) -> Any:
        rows = aiter(self._cursor)
        while True:
            self._conn.waiting_since = time.monotonic()
            try:
                row = await anext(rows, None)
            finally:
                self._conn.waiting_since = None
            if row is None:
                return
            yield row
