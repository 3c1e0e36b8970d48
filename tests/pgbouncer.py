"""PgBouncer in front of the tests' server, in its default configuration but for where things are."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support import free_port

PROGRAM = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
needs_pgbouncer = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (Debian's package pgbouncer)")

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


@asynccontextmanager
async def pgbouncer(url: str, folder: Path, *, mode: str) -> AsyncIterator[str]:
    """The address of a PgBouncer that leads to this database."""
    assert PROGRAM is not None
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    listen = free_port()
    configuration = folder / "pgbouncer.ini"
    user = parts.username or "postgres"
    host, port = str(query.get("host", [parts.hostname])[0]), query.get("port", [parts.port or 5432])[0]
    # In session mode each connection holds a session of its own.
    sessions = 4 if mode == "transaction" else 40
    values = {"host": host, "port": port, "user": user, "listen": listen, "mode": mode, "sessions": sessions}
    configuration.write_text(CONFIGURATION.format(**values))
    # It refuses to run as root, and the socket is open to the server's own user.
    owner = os.stat(host) if host.startswith("/") else None
    as_owner = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"] if owner else []
    command = as_owner if os.getuid() == 0 else []
    with configuration.open() as readable:
        os.set_inheritable(readable.fileno(), True)
        path = f"/dev/fd/{readable.fileno()}"
        process = await asyncio.create_subprocess_exec(*command, PROGRAM, "-q", path, pass_fds=[readable.fileno()])
    try:
        await _until_open(listen)
        yield f"postgresql://{user}@127.0.0.1:{listen}{parts.path}"
    finally:
        process.kill()
        await process.wait()


async def _until_open(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
