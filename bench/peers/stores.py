"""A store of its own for each measurement: a database on the server that was given, a Redis, or a Restate server."""

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.peers.databases import own_database
from bench.peers.node import FOLDER, install_packages
from bench.peers.peer import NotMeasured

START_SECONDS = 60.0


def own_store(server_url: str, name: str) -> AbstractAsyncContextManager[str]:
    """The address of a new, empty store for this peer, removed afterwards."""
    match name:
        case "bullmq":
            return _redis()
        case "restate":
            return _restate()
    return own_database(server_url, name)


@asynccontextmanager
async def _redis() -> AsyncIterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise NotMeasured("redis-server is not installed.", remedy="Install Debian's package redis-server.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no", "--dir", folder]
        async with _running([program, *options], {}):
            await _until(path.exists, "Redis")
            yield f"unix:{path}"


@asynccontextmanager
async def _restate() -> AsyncIterator[str]:
    await install_packages()
    programs = sorted(FOLDER.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not programs:
        raise NotMeasured("npm has no restate-server for this machine.")
    ingress, admin, node = (f"127.0.0.1:{port}" for port in _free_ports(3))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "RESTATE_BASE_DIR": folder,
            "RESTATE_INGRESS__BIND_ADDRESS": ingress,
            "RESTATE_ADMIN__BIND_ADDRESS": admin,
            "RESTATE_BIND_ADDRESS": node,
            "RESTATE_LOG_FILTER": "error",
            "DO_NOT_TRACK": "1",
        }
        async with _running([str(programs[0])], environment):
            await _until(lambda: _is_healthy(f"http://{admin}/health", f"http://{ingress}/restate/health"), "Restate")
            yield f"http://{ingress} http://{admin}"


@asynccontextmanager
async def _running(arguments: list[str], environment: dict[str, str]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until(is_there: Callable[[], bool], name: str) -> None:
    for _ in range(int(START_SECONDS / 0.1)):
        if await asyncio.to_thread(is_there):
            return
        await asyncio.sleep(0.1)
    raise NotMeasured(f"{name} was not ready after {START_SECONDS:.0f} seconds.")


def _is_healthy(*addresses: str) -> bool:
    try:
        for address in addresses:
            with urlopen(address, timeout=1):
                pass
    except (URLError, OSError):
        return False
    return True


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
