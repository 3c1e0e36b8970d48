"""What the benchmarks of the API share: an API process with a bare endpoint beside it, a database, and callers."""

import asyncio
import json
import multiprocessing
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, cast

import uvloop
from fastapi import Body, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from atlas.actors import system
from atlas.api.app import create_app
from atlas.api.http.server import http_server
from atlas.api.limits.rates import Rates
from atlas.api.models.jobs import NewJobBody
from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.db.migrations import migrate
from atlas.db.pool import Pool, connect, open_pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import add_tenant
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings

PORT = 18089
ME = system("bench")
ENQUEUE, PARSE = "/api/v1/jobs", "/parse"
NO_RATES = Rates(token=1e9, tenant=1e9)
JOB = {
    "job_type": "bench.noop",
    "payload": {"to": "ann@example.com", "subject": "Hello", "text": "It works.", "n": 1},
    "priority": 3,
    "correlation_id": "bench",
}


@job("bench.noop")
async def noop(input: dict[str, Any]) -> None:
    """Nothing at all."""


def beside(app: ASGIApp) -> ASGIApp:
    """The application, and beside it one with a single endpoint that parses and validates the same body."""
    bare = FastAPI()

    @bare.post(PARSE, status_code=201)
    async def parse(body: NewJobBody | list[NewJobBody] = Body()) -> dict[str, bool]:
        return {"ok": True}

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        await (bare if scope.get("path") == PARSE else app)(scope, receive, send)

    return either


def serve(url: str, ready: Event, rates: Rates) -> None:
    """The API as `atlas api` runs it, with one more endpoint beside."""

    async def run() -> None:
        configure_logs("error")
        pool = await open_pool(url, size=20)
        app = create_app(load_settings(), pool, url, rates=rates)
        server = http_server(beside(app), app.state.api.clients, port=PORT)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        relax_garbage_collection()
        ready.set()
        await serving

    uvloop.run(run())


@asynccontextmanager
async def database() -> AsyncIterator[tuple[Path, str]]:
    """An embedded server in a folder, and the address of an empty database of Atlas on it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        server = await start_embedded(Path(home))
        try:
            admin = await connect(server.url("postgres"))
            await admin.execute("create database atlas")
            await admin.close()
            await migrate(server.url("atlas"))
            yield Path(home), server.url("atlas")
        finally:
            server.release()


@asynccontextmanager
async def programs(*starts: tuple[Callable[..., None], tuple[Any, ...]]) -> AsyncIterator[list[Any]]:
    """Processes that run these functions. The first one sets an event when it is ready: its second argument."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    (first, (url, *more)), *others = starts
    started = [spawn.Process(target=first, args=(url, ready, *more))]
    started += [spawn.Process(target=run, args=arguments) for run, arguments in others]
    for program in started:
        program.start()
    try:
        await asyncio.to_thread(ready.wait, 60)
        yield started
    finally:
        for program in started:
            program.terminate()
            await asyncio.to_thread(program.join, 30)


async def add_enqueuers(pool: Pool, *names: str) -> list[str]:
    """Open the gate, publish the job type, and return a token to enqueue with for each of these new tenants."""
    tokens = []
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ME)
        await publish_types(conn, [registered()["bench.noop"]])
        for name in names:
            tenant = await add_tenant(conn, slug=name, name=name, actor=ME)
            _, token = await add_token(conn, subject=name, role="enqueuer", tenant=tenant, actor=ME)
            tokens.append(token)
    return tokens


class BenchCaller(asyncio.Protocol):
    """One connection that posts the same jobs, one in a body or a list of several.

    `on_response` is called with each status and response, and sends the next request or closes the connection.
    """

    def __init__(
        self, path: str, token: str, jobs: int, on_response: Callable[["BenchCaller", int, bytes], None]
    ) -> None:
        body = json.dumps(JOB if jobs == 1 else [JOB] * jobs).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body
        self._on_response = on_response
        self._buffer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> "BenchCaller":
        """Connect and return itself. Nothing is sent yet."""
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", PORT)
        return self

    def send(self) -> None:
        """Send the request, unless the connection has ended."""
        if not self._transport.is_closing():
            self._transport.write(self._request)

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self._buffer.find(b"content-length: ") + 16
        length = int(self._buffer[start : self._buffer.find(b"\r\n", start)])
        if len(self._buffer) < head + 4 + length:
            return
        response, self._buffer = self._buffer, b""
        self._on_response(self, int(response[9:12]), response)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)
