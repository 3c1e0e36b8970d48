"""A reader's machine for each page: a folder, a shell, a database with the demo, an API where the page calls one."""

import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from atlas.cli.programs.demo import SLUG, load_demo
from atlas.db.pool import connect, open_pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.switches.gate import switch
from atlas.postgres.cluster import start_embedded
from atlas.test_databases import TestDatabases
from tests.cli.conftest import environment
from tests.cli.warm_process import WarmProcess
from tests.docs.pages import RUN, blocks_of
from tests.docs.session import PageSession
from tests.docs.stand_ins import StandIns
from tests.postgres_versions import running_postgres
from tests.programs import require_program
from tests.support import DANA, ROOT

# Pages that begin without a database. One of them uses a server of the reader's own.
FROM_NOTHING = {"README.md", "backup.md", "install.md"}
OWN_SERVER = "install.md"
# What the reader of a page has done before.
BEFORE = {"backup.md": "atlas migrate"}
HERE = Path(__file__).parent
# What programs import beside commands.
LOADED = (
    "atlas.cli.programs.worker",
    "atlas.cli.programs.scheduler",
    "atlas.cli.programs.api",
    "atlas.api.app",
    "atlas.cli.audit",
)
# Programs of others that pages use, and what each is asked first.
TOOLS = {"curl": "--version", "openssl": "version"}
API = re.compile(r"127\.0\.0\.1:8080|atlas\.example\.com")

ATLAS = f'#!/bin/sh\nexec "{sys.executable}" -IS "{HERE / "atlas_command.py"}" "$@"\n'
# The set-up of `make up` is done: the tests run in it.
MAKE = '#!/bin/sh\n[ "$1" = up ] || exit 2\n[ $# -lt 2 ] || args="${2#ARGS=}"\nexec atlas up $args\n'
# An example that the API refuses fails, unless the page shows the refusal.
# The compiler of the web pages.
TSC = ROOT / "web" / "node_modules" / ".bin" / "tsc"
CURL = "silent\nshow-error\nfail-with-body\n"


@pytest.fixture(scope="session")
def warm_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    """A process whose forks are the commands and programs of the pages."""
    process = WarmProcess(environment(tmp_path_factory.mktemp("warm")), *LOADED)
    yield process
    process.close()


@pytest.fixture
def under_up() -> bool:
    """Whether the reader of the page runs `atlas up`, with its embedded server."""
    return False


@pytest.fixture
def server_version() -> int | None:
    """The version of the reader's own server; None: the server that comes with Atlas."""
    return None


@pytest.fixture
async def stand_ins(
    page: Path, under_up: bool, server_version: int | None, databases: TestDatabases, tmp_path: Path
) -> AsyncIterator[StandIns]:
    """The page's database: the demo as `atlas up` leaves it, an empty one on a server of its own, or none yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if server_version is not None:
        with running_postgres(server_version, tmp_path / "server") as url:
            yield StandIns(url, port, "")
    elif page.name == OWN_SERVER:
        server = await start_embedded(tmp_path / "server")
        yield StandIns(server.url("postgres"), port, "")
        server.release()
    elif page.name in FROM_NOTHING or under_up:
        yield StandIns("", port, "")
    else:
        async with databases.database() as url:
            yield StandIns(url, port, await furnish(url, demo=f"atlas tenant add {SLUG}" not in page.read_text()))
            await drop_roles(page, url)


async def furnish(url: str, *, demo: bool) -> str:
    """Load the demo, switch Atlas on, and return a token."""
    pool = await open_pool(url, size=1)
    try:
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=DANA)
            if demo:
                await load_demo(conn, actor=DANA)
            _, token = await add_token(conn, subject="ann", role="operator", actor=DANA)
            return token
    finally:
        await pool.close()


async def drop_roles(page: Path, url: str) -> None:
    """Remove the logins that a page made, with the rights that they have in its database."""
    names = {name for block in blocks_of(page, "sql") for name in re.findall(r"create role (\w+)", block.text)}
    conn = await connect(url)
    try:
        for name in names:
            if await conn.fetchval("select exists (select from pg_roles where rolname = $1)", name):
                # The database itself is removed later.
                await conn.execute(f"drop owned by {name} cascade; drop role {name}")
    finally:
        await conn.close()


@pytest.fixture
def session(
    page: Path,
    under_up: bool,
    stand_ins: StandIns,
    warm_process: WarmProcess,
    tmp_path: Path,
) -> Iterator[PageSession]:
    """The reader, at the beginning of the page."""
    for name, question in TOOLS.items():
        if f"{name} " in page.read_text():
            require_program(name, question)
    if blocks_of(page, "typescript"):
        require_program("node", str(TSC), "--version")
    folder = tmp_path / "page"
    make_folder(folder)
    database = {} if page.name in FROM_NOTHING or under_up else {"DATABASE_URL": stand_ins.owner_url}
    env = environment(
        folder / ".atlas",
        **database,
        HOME=str(folder),
        PATH=f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        ATLAS_PORT=str(stand_ins.port),
        ATLAS_GRACE_SECONDS="2",
        OUTBOUND_EMAIL_PROVIDER="outbox",
    )
    running = PageSession(folder, env, stand_ins, warm_process.fileno())
    try:
        if page.name in BEFORE:
            running.command(BEFORE[page.name])
        if under_up:
            running.command("atlas up")
            stand_ins.owner_url = running.command("atlas database-url --owner").strip()
        elif page.name not in FROM_NOTHING and any(API.search(block.text) for block in blocks_of(page, *RUN)):
            running.command("atlas api")
        yield running
    finally:
        running.close()


def make_folder(folder: Path) -> None:
    """What a page expects to find: the commands, the handlers of jobs.md, and the examples that come with Atlas."""
    for path, text in (
        ("bin/atlas", ATLAS),
        (".venv/bin/atlas", ATLAS),
        ("bin/make", MAKE),
        ("bin/tsc", f'#!/bin/sh\nexec "{TSC}" "$@"\n'),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    for block in blocks_of(ROOT / "docs" / "jobs.md", "python"):
        if block.file is not None:
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.text)
    (folder / ".curlrc").write_text(CURL)
    shutil.copytree(ROOT / "examples", folder / "examples")
