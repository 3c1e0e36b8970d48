"""`up`: a home is made once, kept through Ctrl-C and kill -9, and found again as it was."""

import asyncio
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
import structlog

from atlas.cli.programs.ports import PortUnavailable
from atlas.cli.programs.process_group import ChildProcess
from atlas.cli.programs.up import start
from atlas.cli.runtime import open_atlas
from atlas.home.up_report import read_programs
from atlas.settings import load_settings
from tests.cli.conftest import environment
from tests.cli.test_process_group import SLEEPER, stopped
from tests.support import ROOT, until

UP = """
import sys
from atlas.cli.runtime import execute
from atlas.cli.programs.process_group import ChildProcess
from atlas.cli.programs.up import start
tree = [ChildProcess(name, [sys.executable, {sleeper!r}, {folder!r}, *name.split(":")]) for name in sys.argv[1:]]
sys.exit(execute(lambda settings: start(settings, tree, json=True)))
"""


@pytest.fixture
async def up(tmp_path: Path):
    """Start `up` with sleepers for programs and answer the process with the document it printed."""
    started = []

    async def call(*names: str, **settings: str | None):
        for mark in tmp_path.glob("*.started"):
            mark.unlink()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", UP.format(sleeper=str(SLEEPER), folder=str(tmp_path)), *names),
            cwd=ROOT,
            env=environment(tmp_path / "home", **settings),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(process)
        lines = []
        while not lines or lines[-1] != b"}\n":
            line = await process.stdout.readline()
            assert line, await process.stderr.read()
            lines.append(line)
        await until(lambda: len(list(tmp_path.glob("*.started"))) == len(names))
        return process, orjson.loads(b"".join(lines))

    yield call
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.long
async def test_an_embedded_home_survives_kill_9_and_is_found_as_it_was(up, atlas, tmp_path):
    first, before = await up("worker")
    gate = (await atlas("status", "--json", DATABASE_URL=None)).document["gate"]
    await atlas("tenant", "add", "acme", DATABASE_URL=None)
    first.kill()
    await first.wait()
    await until(lambda: stopped(tmp_path) == ["worker"])

    second, after = await up("worker")
    tenants = (await atlas("tenant", "list", "--json", DATABASE_URL=None)).document
    second.send_signal(signal.SIGINT)

    assert await second.wait() == 0
    assert gate["online"] is True
    assert after == before
    assert [tenant["slug"] for tenant in tenants["tenants"]] == ["acme", "system"]
    assert (tmp_path / "home" / "operator-token").stat().st_mode & 0o077 == 0
    await until(lambda: not (tmp_path / "home" / "postgres" / "data" / "postmaster.pid").exists())


async def test_a_program_that_cannot_live_is_reported_and_the_rest_goes_on(up, atlas, tmp_path, database_url):
    (tmp_path / "go").touch()
    process, _ = await up("worker", "broken:ends:1", DATABASE_URL=database_url)
    await until(lambda: any(program.ends for program in read_programs(tmp_path / "home")))

    shown = await atlas("status")
    [worker, broken] = (await atlas("status", "--json")).document["programs"]
    process.terminate()

    assert await process.wait() == 0
    assert "Warning: The program broken:ends:1 ended once, the last time with exit status 1" in shown.stdout
    assert (worker["ends"], broken["ends"], broken["last_end"]) == (0, 1, "with exit status 1")
    assert read_programs(tmp_path / "home") == []


@pytest.mark.slow
async def test_mails_workflows_and_the_rest_have_a_worker_each(tmp_path, atlas, database_url, conn):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "up", "--port", port, "--json"),
        cwd=tmp_path,
        env=environment(tmp_path / "home", DATABASE_URL=database_url),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        await until(lambda: alive(conn, 3), within=60)
        status = (await atlas("status", "--json")).document
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    types = sorted((set(worker["job_types"]) for worker in status["workers"]), key=len)
    assert {"EMAIL_SEND"} in types
    assert {"ENGINE_RUN"} in types
    assert "sync-dropbox" in types[-1]
    assert types[-1].isdisjoint({"EMAIL_SEND", "ENGINE_RUN"})
    names = [program["name"] for program in status["programs"]]
    assert names == ["worker of EMAIL_SEND", "worker of ENGINE_RUN", "worker", "scheduler", "api"]


async def alive(conn, count: int) -> bool:
    return await conn.fetchval("select count(*) from atlas.job_workers where dead_at is null") == count


@pytest.mark.long
async def test_a_gate_that_someone_closed_stays_closed_at_the_next_start(up, atlas, database_url):
    conn_settings = {"DATABASE_URL": database_url}
    first, _ = await up("worker", **conn_settings)
    first.terminate()
    await first.wait()
    await atlas("offline", "--reason", "night")

    second, _ = await up("worker", **conn_settings)
    status = await atlas("status", "--json")
    second.terminate()
    await second.wait()

    assert status.document["gate"]["online"] is False
    assert status.document["gate"]["reason"] == "night"


@pytest.mark.long
async def test_the_operator_token_of_the_environment_is_used_instead_of_a_new_one(up, tmp_path, database_url):
    process, said = await up("worker", DATABASE_URL=database_url, ATLAS_OPERATOR_TOKEN="chosen-by-the-operator")
    process.terminate()

    assert await process.wait() == 0
    assert said["token"] == "chosen-by-the-operator"
    assert not (tmp_path / "home" / "operator-token").exists()


@pytest.mark.long
async def test_a_token_that_was_revoked_is_replaced(up, atlas, database_url):
    first, before = await up("worker", DATABASE_URL=database_url)
    first.terminate()
    await first.wait()
    prefix = before["token"].split("_")[1]
    await atlas("token", "revoke", prefix)

    second, after = await up("worker", DATABASE_URL=database_url)
    second.terminate()
    await second.wait()

    assert after["token"] != before["token"]


async def test_port_0_is_refused(atlas):
    by_option = await atlas("up", "--port", "0", DATABASE_URL=None)
    assert (by_option.code, "--port" in by_option.stderr) == (2, True)
    assert "ATLAS_PORT is 0, which is not a port" in (await atlas("up", ATLAS_PORT="0", DATABASE_URL=None)).refusal


async def test_a_port_in_use_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("atlas.cli.programs.up.RELEASE_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = load_settings(atlas_home=tmp_path / "home", atlas_port=taken.getsockname()[1], database_url=None)
        with pytest.raises(PortUnavailable, match="is in use by another program"):
            await start(settings, [ChildProcess("api", ["true"])], json=False)

    assert not (tmp_path / "home").exists()


LATE_API = """
import http.server, pathlib, socket, sys, time
host, port, mark = sys.argv[1:]
time.sleep(1)
pathlib.Path(mark).touch()
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
class Server(http.server.HTTPServer):
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
Server((host, int(port)), Healthy).serve_forever()
"""


def free_port(host: str) -> int:
    """A port of this address. Skips the test where the machine has no such address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as free:
            return int(free.getsockname()[1])
    except OSError as error:
        pytest.skip(f"{host} cannot be listened on: {error}")


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_atlas_says_that_it_is_ready_when_the_api_answers(tmp_path, database_url, capfd, host, shown):
    port = free_port(host)
    settings = load_settings(atlas_home=tmp_path / "home", atlas_host=host, atlas_port=port, database_url=database_url)
    api = ChildProcess("api", [sys.executable, "-c", LATE_API, host, str(port), str(tmp_path / "listens")])
    running = asyncio.create_task(start(settings, [api], json=False))
    said = ""
    while "Atlas is ready" not in said:
        said += capfd.readouterr().out
        await asyncio.sleep(0.02)
        assert not running.done()
    assert (tmp_path / "listens").exists()
    assert f"Atlas is ready on http://{shown}:{port}\n" in said
    assert "enqueue EMAIL_SEND" in said
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.long
async def test_what_keeps_atlas_from_saying_that_it_is_ready_is_logged(tmp_path, database_url, monkeypatch):
    async def broken(*_: object) -> bool:
        raise RuntimeError("the proxy of this machine is broken")

    monkeypatch.setattr("atlas.cli.programs.up._responds", broken)
    # A logger that was used before a test keeps where it writes.
    monkeypatch.setattr("atlas.cli.programs.up.log", structlog.get_logger("up"))
    port = free_port("127.0.0.1")
    settings = load_settings(atlas_home=tmp_path / "home", atlas_port=port, database_url=database_url)
    api = ChildProcess("api", [sys.executable, str(SLEEPER), str(tmp_path), "api"])
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(start(settings, [api], json=False))
        await until(lambda: any(line["event"].startswith("Atlas runs, but") for line in lines))
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    [said] = [line for line in lines if line["event"].startswith("Atlas runs, but")]
    assert said["reason"] == "the proxy of this machine is broken"
    # What takes seconds in a new installation is not done in silence.
    assert [line["event"] for line in lines][:2] == ["preparing the database", "the database is ready"]


@pytest.mark.usefixtures("default_logs")
async def test_a_start_that_takes_long_is_not_silent(tmp_path, database_url, monkeypatch):
    def was_said(doing: str) -> bool:
        return any(line["event"].startswith(f"{doing}, ") and line["event"].endswith(" s so far") for line in lines)

    @asynccontextmanager
    async def slowly(*arguments, **options):
        await until(lambda: was_said("preparing the database"))
        async with open_atlas(*arguments, **options) as atlas:
            yield atlas

    async def not_yet(*_: object) -> bool:
        return False

    monkeypatch.setattr("atlas.cli.programs.up.PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr("atlas.cli.programs.up.open_atlas", slowly)
    monkeypatch.setattr("atlas.cli.programs.up._responds", not_yet)
    # A logger that was used before a test keeps where it writes.
    monkeypatch.setattr("atlas.cli.programs.up.log", structlog.get_logger("up"))
    settings = load_settings(atlas_home=tmp_path / "home", atlas_port=free_port("127.0.0.1"), database_url=database_url)
    api = ChildProcess("api", [sys.executable, str(SLEEPER), str(tmp_path), "api"])
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(start(settings, [api], json=False))
        await until(lambda: was_said("starting the programs"))
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
