"""Enqueue and drain together at full speed, and what has drifted at the end. `python -m bench.steady --minutes 5`.

A worker, an API and a scheduler run as programs of their own. This process keeps up to BACKLOG
jobs queued, 1,000 in a call, and posts some over HTTP, so that the API has work too. Fails if the last minute is slower
than the first, or if a program uses more memory than after the first minute.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import httpx
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from atlas.cli.programs.long_running import atlas_argv
from atlas.db.pool import Connection, Pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench.horizon.verdict import Criterion
from bench.jobs.ground import BENCH, ground

BATCH = 1000
BACKLOG = 20_000
POSTS_PER_SECOND = 20
MIN_RATE_RATIO = 0.95
MAX_MEMORY_RATIO = 1.1
QUEUED = "select count(*) from atlas.jobs where status = 'queued'"


@dataclass(frozen=True, slots=True)
class Minute:
    """Jobs a second that were finished, and the memory of each program at its end."""

    rate: float
    megabytes: dict[str, float] = field(default_factory=dict)


def judge(minutes: list[Minute]) -> Iterator[Criterion]:
    """The last minute beside the first."""
    first, last = minutes[0], minutes[-1]
    rate = last.rate / first.rate
    yield Criterion("jobs/s, last minute / first", rate, f">= {MIN_RATE_RATIO}", rate >= MIN_RATE_RATIO)
    for name in first.megabytes:
        grown = last.megabytes[name] / first.megabytes[name]
        yield Criterion(f"memory of the {name}", grown, f"<= {MAX_MEMORY_RATIO}", grown <= MAX_MEMORY_RATIO)


async def run(pool: Pool, url: str, home: Path, *, minutes: int, seconds: float = 60) -> list[Minute]:
    """The minutes of one run, after a warm-up of ten seconds. A minute has that many seconds."""
    port = _free_port()
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "ATLAS_HOME": str(home),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    async with AsyncExitStack() as stack, pool.acquire() as conn:
        await publish_types(conn, [registered()["bench.noop"]])
        tenant = await add_tenant(conn, slug="steady", name="Steady", actor=BENCH)
        _, token = await add_token(conn, subject="steady", role="enqueuer", tenant=tenant, actor=BENCH)
        programs = {
            name: await stack.enter_async_context(_program(environment, *arguments.split()))
            for name, arguments in (
                ("worker", f"worker --app {ground.__module__} --types bench.noop --batch {BATCH}"),
                ("API", f"api --port {port}"),
                ("scheduler", "scheduler"),
            )
        }
        client = await stack.enter_async_context(_client(port, token))
        posting = asyncio.create_task(_post(client))
        try:
            await _finished(conn, tenant.id, min(10.0, seconds))
            measured = []
            for _ in range(minutes):
                rate = await _finished(conn, tenant.id, seconds) / seconds
                measured.append(Minute(rate, {name: _megabytes(process) for name, process in programs.items()}))
            return measured
        finally:
            posting.cancel()
            with suppress(asyncio.CancelledError):
                await posting


async def _finished(conn: Connection, tenant: UUID, seconds: float) -> float:
    """Keep the queue filled for some seconds; how many jobs were claimed and finished in them."""
    before: int = await conn.fetchval(QUEUED)
    queued, enqueued, ends = before, 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        if queued >= BACKLOG:
            await asyncio.sleep(0.02)
        else:
            for _ in range(5):
                jobs = [NewJob("bench.noop", {"n": n}, tenant) for n in range(BATCH)]
                await enqueue_many(conn, jobs, actor=BENCH)
                enqueued += BATCH
        queued = await conn.fetchval(QUEUED)
    return before + enqueued - queued


@asynccontextmanager
async def _client(port: int, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Once the API listens."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        while True:
            try:
                await client.get("/healthz")
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
        yield client


async def _post(client: httpx.AsyncClient) -> None:
    while True:
        response = await client.post("/api/v1/jobs", json={"job_type": "bench.noop", "payload": {"n": 1}})
        assert response.status_code == 201, response.text
        await asyncio.sleep(1 / POSTS_PER_SECOND)


@asynccontextmanager
async def _program(environment: dict[str, str], *arguments: str) -> AsyncIterator[psutil.Process]:
    process = await asyncio.create_subprocess_exec(
        *atlas_argv(*arguments), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _megabytes(process: psutil.Process) -> float:
    size: int = sum(part.memory_info().rss for part in (process, *process.children(recursive=True)))
    return size / 2**20


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def main(minutes: int) -> bool:
    """On a server of its own. True if nothing drifted."""
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home))
        try:
            async with ground(server.url("postgres"), "steady") as (pool, url):
                measured = await run(pool, url, Path(home), minutes=minutes)
        finally:
            server.release()
    rows = Table("minute", "jobs/s", *(f"{name}, MB" for name in measured[0].megabytes))
    for number, minute in enumerate(measured, 1):
        rows.add_row(str(number), f"{minute.rate:,.0f}", *(f"{size:.0f}" for size in minute.megabytes.values()))
    verdict = Table("last minute / first", "value", "bound", "")
    criteria = list(judge(measured))
    for criterion in criteria:
        word = "pass" if criterion.passed else "[red]FAIL[/]"
        verdict.add_row(criterion.name, f"{criterion.value:.2f}", criterion.bound, word)
    console = Console()
    console.print(rows, verdict)
    return all(criterion.passed for criterion in criteria)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=__doc__)
    parser.add_argument("--minutes", type=int, default=5)
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise SystemExit(0 if runner.run(main(parser.parse_args().minutes)) else 1)
