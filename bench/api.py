"""How much of what an HTTP server can do is left when a request becomes a committed job.

One uvicorn process serves two addresses in turn: `POST /api/v1/jobs`, which checks the caller, commits the job with its
audit row and responds, and an endpoint of a bare FastAPI application that only parses and validates the same body. A
worker drains the queue meanwhile, and Postgres, the API, the worker and the caller share the machine; the queue is
empty before the bare endpoint's turn. The figure is the ratio of the two rates. Beside it stands how much processor
time each program spent on a request, which other work on the machine does not change much.

    python -m bench.api [--seconds 5] [--connections 32] [--rounds 3]
    python -m bench.api --summary 5000000
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop
from fastapi import Body, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from atlas.actors import system
from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.api.models.jobs import NewJobBody
from atlas.api.server import http_server
from atlas.db.migrations import migrate
from atlas.db.pool import Pool, connect, open_pool
from atlas.engine.jobs.gate import switch
from atlas.engine.jobs.type_catalog import publish_types
from atlas.engine.jobs.typed_job import job
from atlas.engine.jobs.types import registered
from atlas.engine.tenants import add_tenant
from atlas.engine.tokens import add_token
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings
from atlas.workers.worker import Worker, WorkerOptions
from bench.api_summary import measure_summary

PORT = 18089
ME = system("bench")
BODY = {
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

    @bare.post("/parse", status_code=201)
    async def parse(body: NewJobBody | list[NewJobBody] = Body()) -> dict[str, bool]:
        return {"ok": True}

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        await (bare if scope.get("path") == "/parse" else app)(scope, receive, send)

    return either


def serve(url: str, ready: Event) -> None:
    """The API as `atlas api` runs it, with one more endpoint beside."""

    async def run() -> None:
        configure_logs("warning")
        pool = await open_pool(url, size=8)
        app = create_app(load_settings(), pool, url, rates=Rates(token=1e9, tenant=1e9))
        server = http_server(beside(app), app.state.api.clients, port=PORT)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        ready.set()
        await serving

    uvloop.run(run())


def work(url: str) -> None:
    """A worker with the usual settings."""

    async def run() -> None:
        configure_logs("warning")
        pool = await open_pool(url, size=6)
        worker = Worker(pool, url, WorkerOptions(["bench.noop"]))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await pool.close()

    uvloop.run(run())


class BenchCaller(asyncio.Protocol):
    """One connection that sends its next request as soon as it has a response."""

    def __init__(self, request: bytes, until: float) -> None:
        self.request = request
        self.until = until
        self.responses = 0
        self.wrong: bytes | None = None
        self.buffer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self.buffer.find(b"content-length: ") + 16
        length = int(self.buffer[start : self.buffer.find(b"\r\n", start)])
        if len(self.buffer) < head + 4 + length:
            return
        if not self.buffer.startswith(b"HTTP/1.1 201"):
            self.wrong = self.buffer
        self.buffer = b""
        self.responses += 1
        if self.wrong or time.perf_counter() >= self.until:
            self.transport.close()
        else:
            self.transport.write(self.request)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)


async def rate(path: str, token: str, *, seconds: float, connections: int) -> float:
    """Requests a second with the response 201."""
    body = json.dumps(BODY).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    callers = [
        (await loop.create_connection(lambda: BenchCaller(head.encode() + body, began + seconds), "127.0.0.1", PORT))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(caller.ended for caller in callers))
    wrong = next((caller.wrong for caller in callers if caller.wrong), None)
    if wrong:
        raise SystemExit(f"an unexpected response: {wrong[:500]!r}")
    return sum(caller.responses for caller in callers) / (time.perf_counter() - began)


class Clock:
    """Processor time of each program."""

    def __init__(self, programs: dict[str, psutil.Process]) -> None:
        self._programs = programs
        self.spent: dict[str, list[float]] = {name: [] for name in programs}

    def read(self) -> dict[str, float]:
        found = {name: _seconds(one) for name, one in self._programs.items()}
        found["postgres"] += sum(map(_seconds, self._programs["postgres"].children()))
        return found

    def note(self, before: dict[str, float], requests: float) -> None:
        """Keep what a request cost since then, in microseconds."""
        for name, now in self.read().items():
            self.spent[name].append((now - before[name]) / requests * 1e6)

    @property
    def medians(self) -> dict[str, int]:
        return {name: round(statistics.median(values)) for name, values in self.spent.items()}


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


async def drained(pool: Pool) -> None:
    """Wait until the worker has done everything."""
    while await pool.fetchval("select exists (select from atlas.jobs where status in ('queued', 'running'))"):
        await asyncio.sleep(0.1)


async def measure(
    url: str, seconds: float, connections: int, rounds: int, programs: dict[str, psutil.Process]
) -> dict[str, Any]:
    """Both rates in turn, so that what else happens on the machine touches both."""
    pool = await open_pool(url, size=1)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ME)
        await publish_types(conn, [registered()["bench.noop"]])
        tenant = await add_tenant(conn, slug="bench", name="Bench", actor=ME)
        _, token = await add_token(conn, subject="bench", role="enqueuer", tenant=tenant, actor=ME)
    for path in ("/parse", "/api/v1/jobs"):
        await rate(path, token, seconds=1, connections=connections)
    pairs = []
    clocks = {"/parse": Clock(programs), "/api/v1/jobs": Clock(programs)}
    for _ in range(rounds):
        pair = []
        for path, clock in clocks.items():
            await drained(pool)
            before = clock.read()
            pair.append(await rate(path, token, seconds=seconds, connections=connections))
            clock.note(before, pair[-1] * seconds)
        pairs.append((pair[0], pair[1]))
    jobs = await pool.fetchval("select count(*) from atlas.jobs")
    await pool.close()
    ratios = [enqueue / parse for parse, enqueue in pairs]
    return {
        "parse_per_second": round(statistics.median(parse for parse, _ in pairs)),
        "enqueue_per_second": round(statistics.median(enqueue for _, enqueue in pairs)),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(one, 3) for one in ratios],
        "jobs": jobs,
        "cpu_us_per_request": {"parse": clocks["/parse"].medians, "enqueue": clocks["/api/v1/jobs"].medians},
    }


async def measure_programs(home: Path, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Start the API and a worker, measure, and stop them."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    programs = [spawn.Process(target=serve, args=(url, ready)), spawn.Process(target=work, args=(url,))]
    for program in programs:
        program.start()
    try:
        await asyncio.to_thread(ready.wait, 60)
        postmaster = int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        pids = {"api": programs[0].pid, "worker": programs[1].pid, "postgres": postmaster, "caller": os.getpid()}
        watched = {name: psutil.Process(pid) for name, pid in pids.items()}
        return await measure(url, options.seconds, options.connections, options.rounds, watched)
    finally:
        for program in programs:
            program.terminate()
            await asyncio.to_thread(program.join, 30)


async def main(options: argparse.Namespace) -> dict[str, Any]:
    """Bring a server up, measure, and take it down."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        server = await start_embedded(Path(home))
        try:
            admin = await connect(server.url("postgres"))
            await admin.execute("create database atlas")
            await admin.close()
            url = server.url("atlas")
            await migrate(url)
            if options.summary:
                return await measure_summary(url, options.summary)
            return await measure_programs(Path(home), url, options)
        finally:
            server.release()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--summary", type=int, metavar="ROWS", help="time GET /jobs/summary over so many jobs instead")
    with contextlib.suppress(KeyboardInterrupt):
        found = uvloop.run(main(parser.parse_args()))
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
