"""From the return of enqueue to the start of the handler, on an idle system, with and without notifications."""

import asyncio
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from atlas.db.pool import Pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import BENCH, ground

PAUSE_SECONDS = 0.05
FIRST_DROPPED = 10
STARTED: dict[int, float] = {}


@job("bench.stamp")
async def stamp(input: dict[str, Any]) -> None:
    """Writes down when it began."""
    STARTED[input["n"]] = time.perf_counter()


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds. `bare` is a round trip that asks nothing, in the same rhythm: what the machine itself takes."""

    bare_p50: float
    bare_p99: float
    p50: float
    p99: float
    deaf_worst: float
    poll: float


async def measure(
    server_url: str, *, jobs: int = 200, deaf_jobs: int = 10, poll: float = 1.0, repeats: int = 3
) -> Latency:
    """An idle worker, a job every 50 ms; then a worker that hears nothing.

    The calmest of some rounds, whole, with its own bare round trips: what disturbs only ever slows.
    """
    rounds = []
    for _ in range(repeats):
        async with ground(server_url, "latency") as (pool, url):
            bare = quantiles(await _round_trips(pool, jobs), n=100)
            heard = quantiles(await _starts(pool, url, jobs, poll=poll, listen=True), n=100)
            rounds.append((heard[98], heard[49], bare[98], bare[49]))
    p99, p50, bare_p99, bare_p50 = min(rounds)
    async with ground(server_url, "latency") as (pool, url):
        deaf = await _starts(pool, url, deaf_jobs, poll=poll, listen=False)
    return Latency(bare_p50, bare_p99, p50, p99, max(deaf), poll * 1000)


async def _round_trips(pool: Pool, count: int) -> list[float]:
    took = []
    async with pool.acquire() as conn:
        for _ in range(count):
            await asyncio.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            await conn.fetchval("select 1")
            took.append((time.perf_counter() - began) * 1000)
    return took[FIRST_DROPPED:]


async def _starts(pool: Pool, url: str, jobs: int, *, poll: float, listen: bool) -> list[float]:
    STARTED.clear()
    worker = Worker(pool, url, WorkerOptions(["bench.stamp"], poll=poll), listen=listen)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(1)
    returned = {}
    async with pool.acquire() as conn:
        for n in range(jobs):
            await enqueue(conn, NewJob("bench.stamp", {"n": n}), actor=BENCH)
            returned[n] = time.perf_counter()
            await asyncio.sleep(PAUSE_SECONDS if listen else poll * 0.37)
        while len(STARTED) < jobs:
            await asyncio.sleep(PAUSE_SECONDS)
    worker.stop()
    await running
    dropped = FIRST_DROPPED if listen else 0
    return [max(0.0, (STARTED[n] - returned[n]) * 1000) for n in range(dropped, jobs)]
