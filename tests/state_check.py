"""Compares the tables with the audit log after every command and API operation of the tests, as `atlas audit verify --state` does.

A disagreement that an operation adds is a write without an event, and fails the test. What a test writes by SQL of its own is left
out: tests move the clocks of rows, and tamper. After such SQL the tables are compared before the next operation too.
What was refused is compared together with the next operation, or at the end of the test; reads and repeated refusals once each.
Changes that were compared once are not compared again, except at full size: tests make the same tenants and jobs a thousand times.
"""

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

import atlas.db.pool
import atlas.db.pooler
from atlas.api.http.direct_app import DirectApp
from atlas.audit.verification.crosscheck import cross_check
from tests.pgbouncer import direct_url
from tests.support import PROOF

# Tests may fill tables with a million rows.
MAX_JOBS, MAX_ROWS = 1_000, 5_000
# How often changes by the same route or command are compared in a run, and reads and refusals of the same sort.
MAX_COMPARISONS, MAX_REFUSALS = 10**9 if PROOF else 1, 1
# With that many findings of one sort, cross_check leaves some out.
MAX_FINDINGS = 100
CONNECT_SECONDS = 10
# Below what commands wait for a lock: a test may hold one.
SETTINGS = {"application_name": "atlas tests", "lock_timeout": "1s", "jit": "off"}
READS = ("GET", "HEAD", "OPTIONS")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WRITES = re.compile(r"\b(insert|update|delete|truncate|merge|copy|alter|drop|create)\b", re.IGNORECASE)
TESTS = str(Path(__file__).parent)
# What a statement passes through between its caller and the server.
BETWEEN = (str(Path(asyncpg.__file__).parent), atlas.db.pool.__file__, atlas.db.pooler.__file__)
# The database is stopped or dropped, has no tables, or the test locks one of them.
ABSENT = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# For the tests of this comparison: the name of a new tenant changes after its event was written.
CHANGE_AFTER_EVENT = """
create function atlas.change_after_event() returns trigger language plpgsql as $$ begin
  update atlas.tenants set name = 'Eve' where id::text = new.entity_id;
  return null;
end $$;
create trigger change_after_event after insert on atlas.audit_log for each row
when (new.action = 'TENANT_ADDED') execute function atlas.change_after_event();
"""

T = TypeVar("T")


@dataclass
class Watched:
    """A database on which operations run. Concurrent ones are compared together, after the last of them."""

    conn: Any = None
    # Those that were not compared yet.
    operations: list[str] = field(default_factory=list)
    running: int = 0
    is_due: bool = False
    # The disagreements of the last comparison, by what they are about.
    found: dict[str, str] | None = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Tally:
    """How often something of a sort was compared, by all test processes of a run: a byte for each time, in a file for each sort."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        # Sorts that were compared as often as they are.
        self._full: set[str] = set()

    def start(self, folder: Path) -> None:
        """Count in this folder, which the processes of the run share."""
        folder.mkdir(exist_ok=True)
        self._folder = folder

    def is_full(self, sort: str, limit: int) -> bool:
        """True where this sort was counted so often."""
        if sort not in self._full and self._path(sort).exists() and self._path(sort).stat().st_size >= limit:
            self._full.add(sort)
        return sort in self._full

    def add(self, sort: str) -> int:
        """Count one more; returns which one it is."""
        with self._path(sort).open("ab") as file:
            file.write(b".")
            file.flush()
            return file.tell()

    def _path(self, sort: str) -> Path:
        assert self._folder is not None
        return self._folder / sha256(sort.encode(errors="surrogateescape")).hexdigest()


class StateCheck:
    """The comparisons of one test process, in a thread of their own: operations run in several event loops."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="state check", daemon=True).start()
        self._databases: dict[str, Watched] = {}
        self._written: set[str] = set()
        self._tally = Tally()
        self._compares_all = False
        self._address: Callable[[str], str] | None = None
        self._unaudited: list[str] = []
        self._left_out: set[str] = set()

    def leave_out(self, url: str) -> None:
        """Do not compare this database: several tests share it, and a comparison would blame the next for what one wrote."""
        self._left_out.add(_name(url))

    def start(self, address: Callable[[str], str], folder: Path) -> None:
        """Compare from now on. `address` returns that of a database of the tests' server by its name; `folder` has the tally."""
        self._tally.start(folder)
        # Kept: what a test counts of Atlas's own functions must not count these.
        self._address = lru_cache(maxsize=1000)(address)

    @asynccontextmanager
    async def watching(self, url: str, operation: str) -> AsyncIterator[Callable[[], None]]:
        """Compare after the block. It calls what it gets if it was refused: then that may wait.

        A database that is reached through a proxy of the test is left alone.
        """
        url, refused = direct_url(url), []
        if self._address is None or _name(url) in self._left_out or url != self._address(_name(url)):
            yield lambda: None
            return
        is_compared = self._compares_all or not self._tally.is_full(_sort(operation), MAX_COMPARISONS)
        await self._run(self._begin(url, operation if is_compared else None))
        try:
            yield lambda: refused.append(operation)
        finally:
            await self._run(self._end(url, operation if is_compared else None, was_refused=bool(refused)))

    def compare_all(self) -> None:
        """Compare each operation until the end of the test, however often those of its sort were."""
        self._compares_all = True

    def note_write(self, name: str) -> None:
        """The test itself writes into this database."""
        self._written.add(name)

    def is_new(self, operation: str) -> bool:
        """True for the first read or refusal of this sort: they are many, and few of them write."""
        sort = f"refused {_sort(operation)}"
        if self._address is None or self._tally.is_full(sort, MAX_REFUSALS):
            return False
        return self._tally.add(sort) <= MAX_REFUSALS

    def finish(self) -> list[str]:
        """Compare what waits, close the connections of a test, and return what its operations wrote without an event."""
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        return self.take_unaudited()

    def take_unaudited(self) -> list[str]:
        """What operations wrote without an event since the last call."""
        unaudited, self._unaudited = self._unaudited, []
        return unaudited

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        # To its end, also where the operation is cancelled.
        return await asyncio.shield(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop)))

    async def _begin(self, url: str, operation: str | None) -> None:
        database = self._databases.setdefault(url, Watched())
        async with database.lock:
            if operation is not None and database.running == 0 and _name(url) in self._written:
                self._written.discard(_name(url))
                database.found = await self._compare(url, database)
                database.operations.clear()
            database.running += 1
            if operation is not None:
                database.operations.append(operation)

    async def _end(self, url: str, operation: str | None, *, was_refused: bool) -> None:
        database = self._databases.get(url)
        if database is None:  # The test ended before its operation.
            return
        async with database.lock:
            database.running -= 1
            if operation is not None and not was_refused:
                self._tally.add(_sort(operation))
                database.is_due = True
            elif operation is not None and not self.is_new(operation):
                database.operations.remove(operation)
            if database.running == 0 and database.is_due:
                await self._judge(url, database)

    async def _judge(self, url: str, database: Watched) -> None:
        before, after = database.found, await self._compare(url, database)
        if before is not None and after is not None and len(before) < MAX_FINDINGS:
            added = [message for subject, message in after.items() if subject not in before]
            self._unaudited += [f"{', '.join(database.operations)}: {message}" for message in added]
        database.found, database.is_due = after, False
        database.operations.clear()

    async def _compare(self, url: str, database: Watched) -> dict[str, str] | None:
        """The disagreements by what they are about, or None where the database cannot be read."""
        with suppress(*ABSENT):
            if database.conn is None or database.conn.is_closed():
                database.conn = await asyncpg.connect(url, timeout=CONNECT_SECONDS, server_settings=SETTINGS)
            async with database.conn.transaction(isolation="repeatable_read", readonly=True):
                findings = await cross_check(database.conn, limit=MAX_JOBS, rows=MAX_ROWS)
            return {_subject(finding.message): finding.message for finding in findings}
        return None

    async def _finish(self) -> None:
        for url, database in self._databases.items():
            if database.operations and database.running == 0 and _name(url) not in self._written:
                await self._judge(url, database)
            if database.conn is not None:
                database.conn.terminate()
        self._databases.clear()
        self._written.clear()
        self._compares_all = False


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _sort(operation: str) -> str:
    """A route without its ids, or a command with the names of its options."""
    if not operation.startswith("atlas "):
        return ID.sub("-", operation)
    words = operation.split()
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    return " ".join([*words[:3], *sorted(options)])


def _subject(message: str) -> str:
    """The id that a finding names first: its other words may change with every operation on the same row."""
    id = ID.search(message)
    return message if id is None else id[0]


STATE_CHECK = StateCheck()


def check_operations() -> None:
    """Compare after every operation of every application of this process: those that change something, and each read once."""
    call = DirectApp.__call__

    async def call_and_compare(self: DirectApp, scope: Any, receive: Any, send: Any) -> None:
        operation = f"{scope['method']} {scope['path']}" if scope["type"] == "http" else ""
        if not operation or (scope["method"] in READS and not STATE_CHECK.is_new(operation)):
            await call(self, scope, receive, send)
            return
        ends: list[Any] = []
        async with STATE_CHECK.watching(self.state.api.url, operation) as refuse:

            async def hold_end(message: Any) -> None:
                """The caller hears of the end after the comparison: what a test writes next is not the operation's."""
                if message["type"] == "http.response.start" and message["status"] >= 400:
                    refuse()
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    ends.append(message)
                else:
                    await send(message)

            try:
                await call(self, scope, receive, hold_end)
            except Exception:
                # The response to an internal error is sent first, then the error is raised for the server's log.
                for message in ends:
                    await send(message)
                raise
        for message in ends:
            await send(message)

    DirectApp.__call__ = call_and_compare  # type: ignore[method-assign]


def note_writes_of_tests() -> None:
    """Know when a test writes by SQL of its own: the nearest caller outside of the pool is one of the tests' files."""
    for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval"):
        setattr(asyncpg.Connection, name, _noting(getattr(asyncpg.Connection, name)))


def _noting(method: Any) -> Any:
    @wraps(method)
    def call(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        if _writes(query):
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith(BETWEEN):
                frame = frame.f_back
            if frame.f_code.co_filename.startswith(TESTS):
                STATE_CHECK.note_write(self._params.database)
        return method(self, query, *arguments, **options)

    return call


@lru_cache(maxsize=4096)
def _writes(query: str) -> bool:
    return WRITES.search(query) is not None
