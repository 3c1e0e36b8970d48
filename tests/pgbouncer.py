"""PgBouncer in front of the tests' server, in its default configuration but for where things are.

`make pooler-tests` sets ATLAS_TEST_POOLER=transaction: then the databases of all tests are reached through one. A test that needs the server
itself, such as to listen, to end a session or to read its locks, takes `direct_url`, or is marked with `without_pooler`.
"""

import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from atlas.test_databases import TestDatabases
from tests.programs import find_program, needs_program
from tests.support import free_port

PROGRAM = find_program("pgbouncer")
needs_pgbouncer = needs_program("pgbouncer", "--version")

# Through which mode of PgBouncer all tests reach their databases; unset: not at all.
POOLER = os.environ.get("ATLAS_TEST_POOLER")
START_SECONDS = 20

CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
"""
# So many tests come and go that their connections would add up.
MANY = """
max_client_conn = 1000
server_idle_timeout = 5
"""

_direct: dict[str, str] = {}


def direct_url(url: str) -> str:
    """The address of the same database without the pooler of ATLAS_TEST_POOLER."""
    return _direct.get(url, url)


def without_pooler(reason: str) -> pytest.MarkDecorator:
    """For tests that cannot run behind ATLAS_TEST_POOLER."""
    return pytest.mark.skipif(POOLER is not None, reason=f"not behind a pooler: {reason}")


class PooledDatabases(TestDatabases):
    """Databases whose addresses lead to a PgBouncer. Programs listen at the server itself, as they should."""

    address: str

    @asynccontextmanager
    async def copy(self, template: str) -> AsyncIterator[str]:
        async with super().copy(template) as direct:
            url = f"{self.address}{urlsplit(direct).path}"
            _direct[url] = direct
            before = os.environ.get("ATLAS_LISTEN_DATABASE_URL")
            os.environ["ATLAS_LISTEN_DATABASE_URL"] = direct
            try:
                yield url
            finally:
                if before is None:
                    del os.environ["ATLAS_LISTEN_DATABASE_URL"]
                else:
                    os.environ["ATLAS_LISTEN_DATABASE_URL"] = before


class PgBouncer:
    """A PgBouncer that leads to the server of `url`. It may be killed, and starts again at the same address."""

    def __init__(self, url: str, folder: Path, *, mode: str, sessions: int, more: str = "") -> None:
        assert PROGRAM is not None
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._listen = free_port()
        self._configuration = folder / "pgbouncer.ini"
        user = parts.username or "postgres"
        host, port = str(query.get("host", [parts.hostname])[0]), query.get("port", [parts.port or 5432])[0]
        values = {"host": host, "port": port, "user": user, "listen": self._listen, "mode": mode, "sessions": sessions}
        self._configuration.write_text(CONFIGURATION.format(**values) + more)
        # It refuses to run as root, and the socket is open to the server's own user.
        owner = os.stat(host) if host.startswith("/") and os.getuid() == 0 else None
        self._as_owner = (
            ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"] if owner else []
        )
        self._process: subprocess.Popen[bytes] | None = None
        # Without a database.
        self.address = f"postgresql://{user}@127.0.0.1:{self._listen}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        assert PROGRAM is not None
        with self._configuration.open() as readable:
            os.set_inheritable(readable.fileno(), True)
            command = [*self._as_owner, PROGRAM, "-q", f"/dev/fd/{readable.fileno()}"]
            self._process = subprocess.Popen(command, pass_fds=[readable.fileno()])
        _until_open(self._listen)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def pooler_of(url: str, folder: Path, *, mode: str) -> PgBouncer:
    """A PgBouncer that leads to this database."""
    # In session mode each connection holds a session of its own.
    sessions = 4 if mode == "transaction" else 40
    return PgBouncer(direct_url(url), folder, mode=mode, sessions=sessions)


@asynccontextmanager
async def pgbouncer(url: str, folder: Path, *, mode: str) -> AsyncIterator[str]:
    """The address of a PgBouncer that leads to this database."""
    with running(pooler_of(url, folder, mode=mode)) as address:
        yield f"{address}{urlsplit(url).path}"


@contextmanager
def running_pgbouncer(url: str, folder: Path, *, mode: str, sessions: int, more: str = "") -> Iterator[str]:
    """The address of a PgBouncer that leads to the server of `url`, without a database."""
    with running(PgBouncer(url, folder, mode=mode, sessions=sessions, more=more)) as address:
        yield address


@contextmanager
def running(pooler: PgBouncer) -> Iterator[str]:
    """Its address, without a database."""
    pooler.start()
    try:
        yield pooler.address
    finally:
        pooler.kill()


def _until_open(port: int) -> None:
    ends_at = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < ends_at, "PgBouncer does not start"
            time.sleep(0.02)
        else:
            return
