"""Fixtures: a server for the session, a database for each test."""

import asyncio
import fcntl
import gc
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import hypothesis
import hypothesis.internal.conjecture.providers as hypothesis_providers
import orjson
import pytest
import structlog

from atlas.db.pool import Pool, _make_pool, _options, connect, open_pool
from atlas.engine.jobs.switches.gate import switch
from atlas.test_databases import TestDatabases
from tests.pgbouncer import MANY, POOLER, PooledDatabases, direct_url, running_pgbouncer
from tests.programs import require_program
from tests.state_check import STATE_CHECK, check_operations, note_writes_of_tests
from tests.support import DANA, PROOF

SERVER_PREFIX = "atlas-tests-"
FILES_PREFIX = "atlas-test-files-"
IN_MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 6 * 2**30
ENOUGH_ROOM = 500 * 2**20
FIRST = ("test_wheel.py", "test_description.py")

# A busy machine is slow, and fixtures of a function serve all its examples; a hundred of them at full size.
_UNCHECKED = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile(
    "atlas", max_examples=100 if PROOF else 30, deadline=None, suppress_health_check=_UNCHECKED
)
hypothesis.settings.load_profile("atlas")
if not PROOF:
    # Those of all modules, which Hypothesis would parse in each test process, among its examples: a tenth of the collection.
    hypothesis_providers._get_local_constants = lambda: hypothesis_providers._local_constants


def remember_types() -> None:
    """Let asyncpg ask the tests' server once for a type, and not in each connection: that took a tenth of the time of the tests.

    The number of a type means the same in all databases of that server: they are copies, and a new number is given once.
    """
    ask = asyncpg.Connection._introspect_types
    known: dict[Any, Any] = {}

    async def introspect(self: Any, numbers: Any, timeout: float | None) -> Any:
        if SERVER_PREFIX not in str(self._addr):
            return await ask(self, numbers, timeout)
        types = self._addr, frozenset(numbers)
        if types not in known:
            known[types] = await ask(self, numbers, timeout)
        return known[types]

    asyncpg.Connection._introspect_types = introspect


remember_types()
# Texts name the command `atlas` where the PATH leads to it.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
check_operations()
note_writes_of_tests()


def server_folder(run: str) -> Path:
    """In memory where there is room: a test's database is then made in a fifth of the time."""
    roomy = IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).total > ENOUGH_MEMORY
    return (IN_MEMORY if roomy else Path(tempfile.gettempdir())) / f"{SERVER_PREFIX}{run}"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give a run a folder of its own for the files of its tests, servers among them.

    Every start of pytest closes pytest's own folder to all others: also to the user that the servers of another run have.
    """
    # Nothing of what is loaded for the collection is garbage.
    gc.disable()
    if config.option.basetemp is None:
        remove_leftovers(Path(tempfile.gettempdir()), FILES_PREFIX, hours=24)
        require_room(Path(tempfile.gettempdir()))
        config.option.basetemp = tempfile.mkdtemp(prefix=FILES_PREFIX)


def require_room(folder: Path) -> None:
    """Refuse to begin where the tests would fail one by one."""
    free = shutil.disk_usage(folder).free
    if free < ENOUGH_ROOM:
        raise pytest.UsageError(
            f"{folder} has {free / 2**20:.0f} MB free, and the tests need {ENOUGH_ROOM / 2**20:.0f} MB: free some,"
            " or set TMPDIR to another folder"
        )


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what is loaded by now: it took an eighth of the time of the test processes."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what must not come last.

    The last tests are shared out one by one, and each process would build the wheel. The longest tests of `make proof`,
    of the API's description, would run alone.
    """
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine has no programs for, before its fixtures are made."""
    for mark in item.iter_markers("needs_program"):
        require_program(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail where a command or an API operation of the test changed a table without an event."""
    try:
        yield
    finally:
        unaudited = STATE_CHECK.finish()
    assert unaudited == []


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove that folder, unless a test failed: then the next run a day later does."""
    folder = Path(session.config.option.basetemp)
    if folder.name.startswith(FILES_PREFIX) and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def databases(testrun_uid: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDatabases]:
    """The session's server, shared by the test processes of one run."""
    # What lies in memory would take it until the next boot.
    remove_leftovers(server_folder(testrun_uid).parent, SERVER_PREFIX, hours=1)
    kind = TestDatabases if POOLER is None else PooledDatabases
    server = kind(server_folder(testrun_uid), os.environ.get("DATABASE_URL"), compact=True)
    asyncio.run(server.start())
    STATE_CHECK.start(server.url, server.folder / "compared")
    if isinstance(server, PooledDatabases):
        folder = tmp_path_factory.mktemp("pooler")
        with running_pgbouncer(server.url("postgres"), folder, mode=POOLER or "", sessions=40, more=MANY) as address:
            server.address = address
            yield server
    else:
        yield server
    server.stop()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        remove_server(testrun_uid)


def pytest_testnodedown(node: Any) -> None:
    """A test process of a parallel run has ended; the last one to end leaves a server that is not used."""
    remove_server(node.workerinput["testrunuid"])


def remove_server(run: str) -> None:
    """Remove the server's folder once its guardian has stopped it; one that is still in use stays."""
    folder = server_folder(run)
    for _ in range(100):
        if not (folder / "postgres" / "data" / "postmaster.pid").exists():
            shutil.rmtree(folder, ignore_errors=True)
            return
        threading.Event().wait(0.05)


def remove_leftovers(parent: Path, prefix: str, *, hours: int) -> None:
    """Remove what runs that ended so long ago left behind."""
    for folder in parent.glob(f"{prefix}*"):
        # Another run has removed it, or it belongs to another user.
        with suppress(FileNotFoundError, PermissionError):
            stopped = not (folder / "postgres" / "data" / "postmaster.pid").exists()
            if stopped and time.time() - folder.stat().st_mtime > hours * 3600:
                shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spec(databases: TestDatabases) -> dict[str, Any]:
    """The description of the API. Making it takes a second, so the test processes of a run share it."""
    from atlas.api.app import read_description

    file = databases.folder / "openapi.json"
    with (databases.folder / "openapi.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(orjson.dumps(read_description()))
    return dict(orjson.loads(file.read_bytes()))


@pytest.fixture
def online() -> None:
    """For a test with a database: Atlas is on there, unless the test turns it off. A folder may use it in all its tests."""


_online: list[str] = []


@pytest.fixture
async def database_url(request: pytest.FixtureRequest, databases: TestDatabases) -> AsyncIterator[str]:
    """The address of a fresh, migrated database; where the test uses `online`, a copy of one that was switched on."""
    if "online" not in request.fixturenames:
        made = databases.database()
    else:
        if not _online:
            _online.append(await databases.add_template(_switch_on))
        made = databases.copy(_online[0])
    async with made as url:
        yield url


async def _switch_on(url: str) -> None:
    connection = await connect(direct_url(url))
    await switch(connection, online=True, actor=DANA)
    await connection.close()


_acting: list[str | None] = []


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on that database, acting as Atlas's programs do.

    As whom is asked in the first database alone: `open_pool` needs a connection more for it, a tenth of the time of a test.
    """
    if not _acting:
        first = await open_pool(database_url, size=1)
        _acting.append(await first.fetchval("select nullif(current_setting('role'), 'none')"))
        await first.close()
    opened = await _make_pool(
        database_url, least=1, most=10, **_options("atlas", pooled=POOLER is not None, role=_acting[0])
    )
    yield opened
    await opened.close()


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Any]:
    """A connection to that database with all the rights of the login."""
    connection = await connect(direct_url(database_url))
    yield connection
    await connection.close()


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Any]:
    """One connection of that pool."""
    async with pool.acquire() as connection:
        yield connection


@pytest.fixture
def eventually(pool: Pool) -> Any:
    """Wait until a query returns a value, and fail with what it returns instead."""

    async def wait(sql: str, *arguments: Any, equals: Any = True, within: float = 60) -> None:
        found = None
        try:
            async with asyncio.timeout(within):
                while (found := await pool.fetchval(sql, *arguments)) != equals:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"still {found!r} instead of {equals!r} after {within} s: {sql}") from None

    return wait


@pytest.fixture
def default_logs() -> Iterator[None]:
    """Logs as in a process that has not set them up, whatever the tests before did."""
    before, root = structlog.get_config(), logging.getLogger()
    level = root.level
    structlog.reset_defaults()
    root.setLevel(logging.WARNING)
    yield
    structlog.configure(**before)
    root.setLevel(level)
