"""What large batches of one tenant cost another tenant: the latency of single `POST /jobs` calls beside them.

A bystander posts one job every 20 ms, first alone, then while an attacker keeps 8 connections busy with 1,000 jobs in
each body. The attacker sends its next body as soon as it has a response, and 50 ms after a 429. One API process serves
both; no worker runs. With `--pin` the attacker has one processor, and everything else another.

    python -m bench.batches [--seconds 10] [--connections 8] [--jobs 1000] [--pin] [--no-rates]
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import uvloop

from atlas.actors import system
from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.api.server import http_server
from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.gate import switch
from atlas.engine.jobs.type_catalog import publish_types
from atlas.engine.jobs.typed_job import job
from atlas.engine.jobs.types import registered
from atlas.engine.tenants import add_tenant
from atlas.engine.tokens import add_token
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings

PORT = 18091
ME = system("bench")
EVERY = 0.02
AFTER_REFUSAL = 0.05
JOB = {"job_type": "bench.noop", "payload": {"to": "ann@example.com", "subject": "Hello", "text": "It works.", "n": 1}}


@job("bench.noop")
async def noop(input: dict[str, Any]) -> None:
    """Nothing at all."""


def serve(url: str, ready: Event, rates: Rates) -> None:
    """The API as `atlas api` runs it."""

    async def run() -> None:
        configure_logs("error")
        pool = await open_pool(url, size=20)
        app = create_app(load_settings(), pool, url, rates=rates)
        server = http_server(app, app.state.api.clients, port=PORT)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        ready.set()
        await serving

    uvloop.run(run())


class BatchCaller:
    """One connection that posts the same body again and again."""

    def __init__(self, token: str, body: bytes) -> None:
        head = (
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", PORT)

    async def post(self) -> int:
        """The status of the response."""
        self._writer.write(self._request)
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            await self.open()
            return 0
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head.split(b" ", 2)[1])


def attack(token: str, jobs: int, connections: int, processor: int | None, began: Event, ended: Event) -> None:
    """Post batches over several connections, and print how many there were by status."""
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    statuses: Counter[int] = Counter()

    async def hammer() -> None:
        caller = BatchCaller(token, json.dumps([JOB] * jobs).encode())
        await caller.open()
        while not ended.is_set():
            status = await caller.post()
            statuses[status] += 1
            began.set()
            if status != 201:
                await asyncio.sleep(AFTER_REFUSAL)

    async def run() -> None:
        await asyncio.gather(*(hammer() for _ in range(connections)))

    uvloop.run(run())
    print(f"the attacker's responses by status: {dict(statuses)}", flush=True)


async def bystand(token: str, seconds: float) -> list[float]:
    """Milliseconds of each single enqueue, in their order of length."""
    caller = BatchCaller(token, json.dumps(JOB).encode())
    await caller.open()
    times = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        status = await caller.post()
        if status != 201:
            raise RuntimeError(f"the bystander was refused: {status}")
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, EVERY - (time.perf_counter() - began)))
    return sorted(times)


async def measure(url: str, options: argparse.Namespace) -> None:
    """Print the bystander's latency alone and beside the attacker, and their ratio."""
    pool = await open_pool(url, size=1)
    tokens = {}
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ME)
        await publish_types(conn, [registered()["bench.noop"]])
        for name in ("bystander", "attacker"):
            tenant = await add_tenant(conn, slug=name, name=name, actor=ME)
            _, tokens[name] = await add_token(conn, subject=name, role="enqueuer", tenant=tenant, actor=ME)
    await pool.close()
    await bystand(tokens["bystander"], 2)
    alone = await bystand(tokens["bystander"], options.seconds)
    spawn = multiprocessing.get_context("spawn")
    began, ended = spawn.Event(), spawn.Event()
    batches = (tokens["attacker"], options.jobs, options.connections, 1 if options.pin else None, began, ended)
    attacker = spawn.Process(target=attack, args=batches)
    attacker.start()
    try:
        await asyncio.to_thread(began.wait, 60)
        beside = await bystand(tokens["bystander"], options.seconds)
    finally:
        ended.set()
        await asyncio.to_thread(attacker.join)
    p95 = []
    for name, times in (("alone", alone), ("beside batches", beside)):
        p95.append(times[int(len(times) * 0.95)])
        print(f"{name}: p50 {statistics.median(times):.1f} ms, p95 {p95[-1]:.1f} ms, slowest {times[-1]:.1f} ms")
    print(f"ratio of p95: {p95[1] / p95[0]:.2f}")


async def main(options: argparse.Namespace) -> None:
    """Bring a server and the API up, measure, and take them down."""
    if options.pin:
        os.sched_setaffinity(0, {0})
    rates = Rates(token=1e9, tenant=1e9) if options.no_rates else Rates()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        server = await start_embedded(Path(home))
        try:
            admin = await connect(server.url("postgres"))
            await admin.execute("create database atlas")
            await admin.close()
            url = server.url("atlas")
            await migrate(url)
            spawn = multiprocessing.get_context("spawn")
            ready = spawn.Event()
            api = spawn.Process(target=serve, args=(url, ready, rates))
            api.start()
            try:
                await asyncio.to_thread(ready.wait, 60)
                await measure(url, options)
            finally:
                api.terminate()
                await asyncio.to_thread(api.join, 30)
        finally:
            server.release()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.batches", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=8, help="of the attacker")
    parser.add_argument("--jobs", type=int, default=1000, help="in each of the attacker's bodies")
    parser.add_argument("--pin", action="store_true", help="the attacker on processor 1, everything else on 0")
    parser.add_argument("--no-rates", action="store_true", help="without rate limits")
    uvloop.run(main(parser.parse_args()))
