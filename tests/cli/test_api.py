"""`api`: a process with few files serves everyone beside clients that hold connections and send nothing."""

import asyncio
import resource
import socket
import sys
from contextlib import closing, suppress

import httpx
import psutil
import pytest

from tests.cli.conftest import environment
from tests.support import until

FILES = 256
HEAD = b"GET /healthz HTTP/1.1\r\nX: "


@pytest.fixture
async def api(tmp_path, database_url):
    """A process with so few files, and its port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "api", "--port", str(port)),
        cwd=tmp_path,
        env=environment(tmp_path / "home", DATABASE_URL=database_url),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: is_open(port))
    yield process, port
    if process.returncode is None:
        process.kill()
        await process.wait()


def is_open(port: int) -> bool:
    with closing(socket.socket()) as there:
        return there.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", HEAD], ids=["silent", "half-sent"])
async def test_silent_connections_beyond_the_files_lock_no_one_out(api, sent):
    process, port = api
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(FILES + 150)]
        for one in held:
            with suppress(OSError):  # closed for a newer one
                one.sendall(sent)
        files = psutil.Process(process.pid).num_fds()
        answers = [await client.get(path) for path in ("/healthz", "/readyz", "/metrics") * 3]
        # The longest are those that are received 408, and do not read it.
        await until(lambda: psutil.Process(process.pid).num_fds() < files // 2)
    for one in held:
        one.close()
    process.terminate()
    _, logged = await process.communicate()

    assert {answer.status_code for answer in answers} == {200}
    assert 'atlas_http_refused_total{reason="connections_of_address"}' in answers[-1].text
    assert files < FILES * 0.7
    assert b"connections were refused or closed" in logged
    assert b"Too many open files" not in logged
