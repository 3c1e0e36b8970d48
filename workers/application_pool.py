"""The connections of handlers to the application's database, with the application's login."""

import asyncio
from contextlib import AbstractAsyncContextManager

import asyncpg

from atlas.db.failures import public_url
from atlas.db.pool import Connection, Pool, open_own_login
from atlas.db.schema import schema_name
from atlas.db.statements import statement
from atlas.errors import Refused, SettingsError

MAY_COMMIT = statement("workers/sql/may_commit.sql")


class ApplicationPool:
    """Opened with the first transaction of a handler: most workers need none."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Pool:
        """The pool. Raises if it does not lead to the database of Atlas, or its login may not end attempts."""
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await _open_checked(self._url, self._size)
        return self._pool

    async def acquire(self) -> AbstractAsyncContextManager[Connection]:
        """A connection, for as long as the block that the result opens."""
        borrowed: AbstractAsyncContextManager[Connection] = (await self.open()).acquire()
        return borrowed

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            await self._pool.close()


async def _open_checked(url: str, size: int) -> Pool:
    pool = await open_own_login(url, size=size, application="atlas handler")
    try:
        async with pool.acquire() as conn:
            row = await conn.fetchrow(MAY_COMMIT.sql, schema_name())
    except (OSError, asyncpg.PostgresError):
        await pool.close()
        raise
    if row is not None and row["may_commit"]:
        return pool
    await pool.close()
    if row is None:
        raise SettingsError(
            f"The database at {public_url(url)} holds no schema {schema_name()} with the function commit_attempt.",
            remedy="Let ATLAS_APPLICATION_DATABASE_URL name the database of DATABASE_URL, and run `atlas migrate`.",
        )
    raise Refused(
        f"The login {row['login']} may not end jobs in its transactions.",
        remedy=f"Run `atlas grant enqueue {row['login']} …` for what it enqueues. For a login that enqueues nothing,"
        f" the owner of the tables runs: select {schema_name()}.grant_enqueue('{row['login']}');",
    )
