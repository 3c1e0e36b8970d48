"""Connections behind a pooler such as PgBouncer, which may give every transaction another session of the server.

So nothing is kept in a session: every statement runs in a transaction, whose first words are the settings, and no
prepared statement outlives it. A pooler is recognised by the number that it gives the connection, which is not that of
the server's process, or by refusing the settings with which a connection begins.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.utils import _quote_literal


async def is_pooled(conn: Any) -> bool:
    """True if another program stands between this connection and the server's process."""
    return bool(await conn.fetchval("select pg_backend_pid()") != conn.get_server_pid())


def local_settings(settings: Mapping[str, str]) -> str:
    """What every transaction begins with, such as `set local role = 'atlas_engine';`."""
    return " ".join(f"set local {name} = {_quote_literal(value)};" for name, value in settings.items())


# A statement alone is a transaction of three messages here. Between them a process may freeze, with the locks of a
# claim: the server then ends the session, before `offline` stops waiting for the lock of the gate (5 s).
_ALONE = " set local idle_in_transaction_session_timeout = '2s';"


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg brings no types
    """A connection to a pooler. `settings` is what its transactions begin with."""

    settings = ""
    _alone = ""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Run a statement, in a transaction."""
        verb = query.partition(";")[0].partition(" ")[0].upper()
        if verb == "BEGIN" and not self.is_in_transaction():
            # The settings go in the same message and cost no time of their own. Those of the caller come after them.
            begin, _, rest = query.partition(";")
            return await super().execute(f"{begin}; {self.settings}{self._alone}{rest}", timeout=timeout)
        if verb in ("COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"):
            return await super().execute(query, timeout=timeout)
        async with self._in_transaction():
            return await super().execute(query, *args, timeout=timeout)

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> Any:
        """Run a statement for each of these arguments, in a transaction."""
        async with self._in_transaction():
            return await super().executemany(command, args, timeout=timeout)

    async def _execute(self, *args: Any, **options: Any) -> Any:
        async with self._in_transaction():
            return await super()._execute(*args, **options)

    @asynccontextmanager
    async def _in_transaction(self) -> AsyncIterator[None]:
        if self.is_in_transaction():
            yield
        else:
            self._alone = _ALONE
            try:
                async with self.transaction():
                    self._alone = ""
                    yield
            finally:
                self._alone = ""

    def get_reset_query(self) -> str:
        """Nothing: there is no session to reset, only what `set_for_session` has added."""
        self.__dict__.pop("settings", None)
        return ""


def is_behind_pooler(conn: Any) -> bool:
    """True if a pooler such as PgBouncer stands between this connection and the server."""
    # Not isinstance(): asyncpg answers that with yes for every connection.
    return issubclass(type(_own(conn)), PooledConnection)


def _own(conn: Any) -> Any:
    """The connection itself: what a pool lends is a proxy."""
    return getattr(conn, "_con", conn)


async def set_for_session(conn: Any, name: str, value: str) -> None:
    """A setting for all that follows on this connection, until it goes back to its pool."""
    if is_behind_pooler(conn):
        own = _own(conn)
        own.settings += f" set local {name} = {value};"
    else:
        await conn.execute(f"set {name} = {value}")


async def execute_alone(conn: Any, sql: str) -> None:
    """Run a statement that refuses to be in a transaction, and that needs no settings."""
    await asyncpg.Connection.execute(_own(conn), sql)
