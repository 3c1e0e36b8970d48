"""Real databases for tests, each cloned from a migrated template, so that a test starts in milliseconds."""

import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from atlas.db.migrations import load_migrations, migrate
from atlas.db.pool import connect
from atlas.db.sql_functions import functions_hash
from atlas.errors import DatabaseError
from atlas.postgres.cluster import EmbeddedPostgres, start_embedded

# A test server has nothing to lose in a power cut. Crash tests kill processes, which the kernel's cache survives.
TEST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "max_connections": "400",
    "autovacuum_naptime": "60s",
}


class TestDatabases:
    """A server for a test session: the one in DATABASE_URL, or an embedded one in `folder`.

    Several test processes may share a folder; they then share the server and its template.
    """

    __test__ = False  # for pytest: not a test class

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self._url = url
        self._embedded: EmbeddedPostgres | None = None
        # Copying files takes a seventh of the time of writing them through the log. It needs two checkpoints, which
        # cost little on the embedded server: there, nothing is forced to the disk.
        self._strategy = " strategy file_copy" if url is None else ""
        marks = "".join(migration.checksum for migration in load_migrations()) + functions_hash()
        self._template = f"atlas_template_{hashlib.sha256(f'{marks}{folder}'.encode()).hexdigest()[:12]}"

    async def start(self) -> None:
        """Start the server and make the template, unless another process has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._url is None:
            self._embedded = await start_embedded(self.folder, settings=TEST_SETTINGS)
        with (self.folder / "template.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if await self._make(self._template):
                await migrate(self.url(self._template))

    def stop(self) -> None:
        """Stop using the server."""
        if self._embedded is not None:
            self._embedded.release()

    def url(self, database: str) -> str:
        """The address of one database of this server."""
        if self._embedded is not None:
            return self._embedded.url(database)
        assert self._url is not None
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"/{database}"))

    @asynccontextmanager
    async def database(self, *, migrated: bool = True) -> AsyncIterator[str]:
        """A new database, which is dropped after the block."""
        name = f"test_{os.getpid()}_{uuid4().hex[:12]}"
        await self._make(name, self._template if migrated else "template0")
        try:
            yield self.url(name)
        finally:
            await self._drop(name)

    async def _make(self, name: str, template: str = "template0") -> bool:
        """Create a database. Returns False if it exists."""
        conn = await connect(self.url("postgres"), application="atlas tests")
        try:
            await conn.execute(f'create database "{name}" template "{template}"{self._strategy}')
        except asyncpg.DuplicateDatabaseError:
            return False
        except asyncpg.InsufficientPrivilegeError as error:
            login = await conn.fetchval("select session_user")
            raise DatabaseError(
                f"The login {login} of DATABASE_URL may not create databases, and each test has one of its own.",
                remedy=f'Let an administrator run: alter role "{login}" createdb; or unset DATABASE_URL, and the tests'
                " start a Postgres of their own.",
            ) from error
        finally:
            await conn.close()
        return True

    async def _drop(self, name: str) -> None:
        conn = await connect(self.url("postgres"), application="atlas tests")
        try:
            await conn.execute(f'drop database if exists "{name}" with (force)')
        finally:
            await conn.close()
