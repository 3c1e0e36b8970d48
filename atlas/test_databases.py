"""Real databases for tests, each cloned from a migrated template, so that a test starts in milliseconds.

While a test runs, the database of the next one is made, and that of the last one dropped.
"""

import asyncio
import fcntl
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
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
    # Every checkpoint looks at all buffers, and a database of a test comes and goes with three of them.
    "shared_buffers": "64MB",
    "max_connections": "400",
    "autovacuum_naptime": "60s",
    # So that tests can forget a prepared transaction and a logical slot.
    "max_prepared_transactions": "5",
    "wal_level": "logical",
    # Files are copied by the kernel.
    "file_copy_method": "clone",
}

# The template of Postgres itself.
EMPTY = "template0"

T = TypeVar("T")


class _AdminThread:
    """A connection that creates and drops databases, in a thread: it outlives the event loops of the tests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test databases", daemon=True)
        self._thread.start()
        self._one_by_one = asyncio.Lock()
        self._conn: Any = None

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin some work in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def execute(self, url: str, sql: str) -> None:
        """In the thread: run a statement on the server of `url`, after those that were begun before."""
        async with self._one_by_one:
            if self._conn is None or self._conn.is_closed():
                self._conn = await connect(url, application="atlas tests")
            await self._conn.execute(sql)

    @property
    def login(self) -> str:
        """The login of the connection."""
        return str(self._conn.get_settings().session_authorization)

    def close(self) -> None:
        """Close the connection and end the thread."""
        self.run(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        if self._conn is not None:
            await self._conn.close()


class TestDatabases:
    """A server for a test session: the one in DATABASE_URL, or an embedded one in `folder`.

    Several test processes may share a folder; they then share the server and its template. With `compact` an
    embedded server's template takes 0.2 s more, and each copy of it 2 ms less: that is for runs of hundreds of tests.
    """

    __test__ = False  # for pytest: not a test class

    def __init__(self, folder: Path, url: str | None = None, *, compact: bool = False) -> None:
        self.folder = folder
        self._url = url
        self._compact = compact
        self._embedded: EmbeddedPostgres | None = None
        self._admin = _AdminThread()
        # By template, the databases that were made ahead.
        self._next: dict[str, Future[str]] = {}
        self._drops: list[Future[None]] = []
        self._templates: list[str] = []
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
            try:
                await asyncio.wrap_future(self._admin.run(self._make(self._template, EMPTY)))
            except asyncpg.DuplicateDatabaseError:
                return
            await migrate(self.url(self._template))
            if self._compact and self._embedded is not None:
                await self._make_compact(self._template)

    def stop(self) -> None:
        """Stop using the server, once all databases are dropped."""
        self._drops += [self._admin.run(self._drop(database.result())) for database in self._next.values()]
        self._drops += [self._admin.run(self._drop(name)) for name in self._templates]
        for drop in self._drops:
            drop.result()
        self._admin.close()
        if self._embedded is not None:
            self._embedded.release()

    def url(self, database: str) -> str:
        """The address of one database of this server."""
        if self._embedded is not None:
            return self._embedded.url(database)
        assert self._url is not None
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"/{database}"))

    def database(self, *, migrated: bool = True) -> AbstractAsyncContextManager[str]:
        """The address of a new database, which is dropped after the block."""
        return self.copy(self._template if migrated else EMPTY)

    @asynccontextmanager
    async def copy(self, template: str) -> AsyncIterator[str]:
        """The address of a copy of another database, which is dropped after the block."""
        database = self._next.get(template) or self._order(template)
        self._next[template] = self._order(template)
        name = await asyncio.wrap_future(database)
        try:
            yield self.url(name)
        finally:
            self._drops.append(self._admin.run(self._drop(name)))

    async def add_template(self, fill: Callable[[str], Awaitable[None]]) -> str:
        """Make a database that others are copied from, with what `fill` writes into it; returns its name."""
        name = await asyncio.wrap_future(self._order(self._template))
        self._templates.append(name)
        await fill(self.url(name))
        return name

    def _order(self, template: str) -> Future[str]:
        return self._admin.run(self._make(f"test_{os.getpid()}_{uuid4().hex[:12]}", template))

    async def _make(self, name: str, template: str) -> str:
        try:
            await self._execute(f'create database "{name}" template "{template}"{self._strategy}')
        except asyncpg.InsufficientPrivilegeError as error:
            login = self._admin.login
            raise DatabaseError(
                f"The login {login} of DATABASE_URL may not create databases, and each test has one of its own.",
                remedy=f'Have an administrator run: alter role "{login}" createdb; or unset DATABASE_URL, and the tests'
                " start a Postgres of their own.",
            ) from error
        return name

    async def _make_compact(self, name: str) -> None:
        """Leave out of the catalogs what changes have left there, and the maps of their free space.

        Other tables are as new as before: the planner would know of one that was vacuumed that it is empty.
        """
        conn = await connect(self.url(name), application="atlas tests")
        try:
            catalogs = await conn.fetchval(
                "select string_agg(oid::regclass::text, ', ') from pg_class"
                " where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared"
            )
            await conn.execute(f"vacuum full {catalogs}")
        finally:
            await conn.close()
        # The first connection afterwards stores what each one reads of the catalogs, in a file that copies have too.
        await (await connect(self.url(name), application="atlas tests")).close()

    async def _drop(self, name: str) -> None:
        await self._execute(f'drop database if exists "{name}" with (force)')

    async def _execute(self, sql: str) -> None:
        await self._admin.execute(self.url("postgres"), sql)
