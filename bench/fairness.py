"""Fair shares: delays beside a backlog of another tenant, worker time by weights, what many tenants cost.

`python -m bench.fairness` measures each beside the order by priority and age alone (ATLAS_FAIRNESS=off) in one run, and
the delays beside two other queues, which have one order for all.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from uuid import UUID

import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from atlas.db.pool import Pool
from atlas.engine.jobs.claim import Claimant
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import succeed
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import BENCH, PIECE, ground
from bench.peers.databases import connected, own_database, settle
from bench.peers.measurement import load
from bench.peers.peer import NotMeasured
from bench.peers.stopwatch import delays, in_one_process

STARTED: dict[int, float] = {}
USED: defaultdict[str, float] = defaultdict(float)
# Peers that are measured behind the same backlog, and what makes jobs in their store a backlog.
AS_BACKLOG = {
    "pgqueuer": """update pgqueuer set payload = '{"n": -1}'""",
    "graphile-worker": """update graphile_worker._private_jobs set payload = '{"n": -1}'""",
}
WEIGHTS = {"one": (1, 0.001), "two": (2, 0.02), "four": (4, 0.2)}


@job("bench.mark")
async def mark(input: dict[str, Any]) -> None:
    """Writes down when it began, if it has a number; sleeps, if it has seconds."""
    if "seconds" in input:
        began = time.perf_counter()
        await asyncio.sleep(input["seconds"])
        USED[input["tenant"]] += time.perf_counter() - began
    elif input["n"] >= 0:
        STARTED[input["n"]] = time.perf_counter()


async def add_tenant(pool: Pool, slug: str, weight: float = 1) -> UUID:
    """A tenant of that weight."""
    tenant: UUID = await pool.fetchval(
        """insert into atlas.tenants (slug, name, limits)
        values ($1, $1, jsonb_build_object('weight', $2::float8)) returning id""",
        slug,
        weight,
    )
    return tenant


async def fill(pool: Pool, tenant: UUID, jobs: int, input: dict[str, Any]) -> None:
    """Queue that many jobs for a tenant."""
    async with pool.acquire() as conn:
        for start in range(0, jobs, PIECE):
            many = min(PIECE, jobs - start)
            await enqueue_many(conn, [NewJob("bench.mark", input, tenant) for _ in range(many)], actor=BENCH)


async def light_beside(server: str, heavy_jobs: int, *, fair: bool, jobs: int, rate: float) -> list[float]:
    """What a tenant with `rate` jobs a second waits for each of its jobs to start, in ms, beside another's backlog."""
    STARTED.clear()
    async with ground(server, "fair") as (pool, url):
        heavy, light = await add_tenant(pool, "heavy"), await add_tenant(pool, "light")
        await fill(pool, heavy, heavy_jobs, {"n": -1})
        await settle(url)
        worker = Worker(pool, url, WorkerOptions(["bench.mark"], is_fair=fair))
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(1)
        returned = {}
        async with pool.acquire() as conn:
            for n in range(jobs):
                await enqueue(conn, NewJob("bench.mark", {"n": n}, light), actor=BENCH)
                returned[n] = time.perf_counter()
                await asyncio.sleep(1 / rate)
            while len(STARTED) < jobs:
                await asyncio.sleep(0.05)
        worker.stop()
        await running
    return [max(0.0, (STARTED[n] - returned[n]) * 1000) for n in range(jobs)]


@contextmanager
def busy_processors() -> Iterator[None]:
    """Keeps every processor busy, as a worker and its server do behind a backlog."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


async def peer_beside(server: str, name: str, backlog: int, *, jobs: int) -> list[float]:
    """What each job waits that a peer is given behind a backlog, 20 a second, in ms."""
    peer = load(name, None)
    async with own_database(server, name) as url:
        await peer.prepare(url)
        await peer.enqueue_bulk(url, backlog)
        async with connected(url) as conn:
            await conn.execute(AS_BACKLOG[name])
        await settle(url)
        _, after_return = delays(*await in_one_process(peer, url, jobs))
        return [1000 * seconds for seconds in after_return]


async def shares(server: str, seconds: float, *, fair: bool) -> dict[str, float]:
    """The part of the worker seconds that each of three tenants got, by weight 1, 2 and 4."""
    async with ground(server, "fair") as (pool, url):
        for slug, (weight, share) in WEIGHTS.items():
            tenant = await add_tenant(pool, slug, weight)
            # More than ten slots can do in the time.
            await fill(
                pool, tenant, min(100_000, int(12 * seconds / (share + 0.001))), {"seconds": share, "tenant": slug}
            )
        await settle(url)
        worker = Worker(pool, url, WorkerOptions(["bench.mark"], concurrency=10, is_fair=fair))
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(1)
        USED.clear()
        await asyncio.sleep(seconds)
        used = USED.copy()
        worker.stop()
        await running
    return {slug: used[slug] / sum(used.values()) for slug in WEIGHTS}


async def turn_ms(server: str, tenants: int, *, jobs: int, slots: int, fair: bool = True) -> float:
    """The median of a turn that finishes and claims `slots` jobs, in ms, of that many tenants with a backlog each."""
    async with ground(server, "fair") as (pool, url):
        ids = [await add_tenant(pool, f"t{n}") for n in range(tenants)]
        async with pool.acquire() as conn:
            for start in range(0, jobs, PIECE):
                new = [NewJob("bench.mark", {"n": -1}, ids[n % tenants]) for n in range(start, start + PIECE)]
                await enqueue_many(conn, new, actor=BENCH)
        await settle(url)
        worker = new_worker_id()
        async with pool.acquire() as conn:
            await register_worker(conn, worker, lease=600, job_types=["bench.mark"])
            claimant = Claimant(worker, ["bench.mark"], is_fair=fair)
            turn = await finish_and_claim(conn, claimant, slots=slots)
            took = []
            for _ in range(100):
                done = [succeed(job, worker, None, "JOB_SUCCEEDED") for job in turn.claimed]
                began = time.perf_counter()
                turn = await finish_and_claim(conn, claimant, done, slots=slots, after=turn.after)
                took.append((time.perf_counter() - began) * 1000)
                assert len(turn.claimed) == slots, f"{len(turn.claimed)} jobs claimed"
    return median(took)


async def blocked_ms(server: str, held: int, keys: int) -> float:
    """The median of a turn that finishes and claims one job, in ms, behind this many throttled jobs."""
    async with ground(server, "fair") as (pool, url):
        await pool.execute(
            """insert into atlas.job_types (key, concurrency, concurrency_key)
            values ('bench.keyed', 1, '{{ input.key }}')"""
        )
        worker = new_worker_id()
        async with pool.acquire() as conn:
            await register_worker(conn, worker, lease=3600, job_types=["bench.keyed", "bench.mark"])
            claimant = Claimant(worker, ["bench.keyed", "bench.mark"])
            for start in range(0, held, PIECE):
                new = [NewJob("bench.keyed", {"key": n % keys}) for n in range(start, min(held, start + PIECE))]
                await enqueue_many(conn, new, actor=BENCH)
            # One of each key runs, and all others wait for it.
            while (await finish_and_claim(conn, claimant, slots=PIECE)).claimed:
                pass
            await enqueue_many(conn, [NewJob("bench.mark", {"n": -1}) for _ in range(1000)], actor=BENCH)
        await settle(url)
        async with pool.acquire() as conn:
            turn = await finish_and_claim(conn, claimant, slots=1)
            took = []
            for _ in range(500):
                done = [succeed(job, worker, None, "JOB_SUCCEEDED") for job in turn.claimed]
                began = time.perf_counter()
                turn = await finish_and_claim(conn, claimant, done, slots=1)
                took.append((time.perf_counter() - began) * 1000)
    return median(took)


async def measure(server: str, options: argparse.Namespace) -> None:
    """Measure and print."""
    console = Console()
    waits = Table("start of a light tenant's jobs", "p50 ms", "p95 ms", "p95 / alone")
    alone = quantiles(await light_beside(server, 0, fair=True, jobs=options.light, rate=5), n=100)
    waits.add_row("alone", f"{alone[49]:.2f}", f"{alone[94]:.2f}", "1")
    with busy_processors():
        figures = quantiles(await light_beside(server, 0, fair=True, jobs=options.light, rate=5), n=100)
    waits.add_row(
        "alone, processors busy", f"{figures[49]:.2f}", f"{figures[94]:.2f}", f"{figures[94] / alone[94]:.1f}"
    )
    for name, fair in (("fair", True), ("off", False)):
        figures = quantiles(await light_beside(server, options.heavy, fair=fair, jobs=options.light, rate=5), n=100)
        waits.add_row(
            f"beside {options.heavy:,}, {name}",
            f"{figures[49]:.2f}",
            f"{figures[94]:.2f}",
            f"{figures[94] / alone[94]:.1f}",
        )
    for name in options.peers:
        try:
            figures = quantiles(await peer_beside(server, name, options.heavy, jobs=options.light), n=100)
        except NotMeasured as error:
            waits.add_row(name, escape(str(error)), "", "")
        else:
            ratio = f"{figures[94] / alone[94]:.1f}"
            waits.add_row(f"{name} behind {options.heavy:,}", f"{figures[49]:.2f}", f"{figures[94]:.2f}", ratio)
    console.print(waits)

    table = Table("worker seconds", *(f"weight {weight}, {1000 * share:.0f} ms" for weight, share in WEIGHTS.values()))
    table.add_row("should be", *(f"{weight / 7:.3f}" for weight, _ in WEIGHTS.values()))
    for name, fair in (("fair", True), ("off", False)):
        table.add_row(name, *(f"{part:.3f}" for part in (await shares(server, options.seconds, fair=fair)).values()))
    console.print(table)

    cost = Table("turn of 50 jobs", "ms", "ratio")
    milliseconds = await turn_ms(server, 1, jobs=50_000, slots=50)
    for tenants in (1, 2, 64, options.tenants):
        took = milliseconds if tenants == 1 else await turn_ms(server, tenants, jobs=50_000, slots=50)
        cost.add_row(f"{tenants:,} tenants", f"{took:.2f}", f"{took / milliseconds:.2f}")
    console.print(cost)

    blocked = Table("turn of one job", "ms", "ratio")
    empty = await blocked_ms(server, 0, options.keys)
    behind = await blocked_ms(server, options.held, options.keys)
    blocked.add_row("nothing held", f"{empty:.3f}", "1")
    blocked.add_row(f"{options.held:,} held by {options.keys:,} keys", f"{behind:.3f}", f"{behind / empty:.2f}")
    console.print(blocked)


async def main(options: argparse.Namespace) -> None:
    """On a server of its own."""
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home))
        try:
            await measure(server.url("postgres"), options)
        finally:
            server.release()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--heavy", type=int, default=200_000, help="jobs in the backlog of the heavy tenant")
    parser.add_argument("--light", type=int, default=50, help="jobs of the light tenant, 5 a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long three tenants compete")
    parser.add_argument("--tenants", type=int, default=10_000, help="how many have a backlog each")
    parser.add_argument("--peers", nargs="*", default=list(AS_BACKLOG), choices=list(AS_BACKLOG), help="beside which")
    parser.add_argument("--held", type=int, default=1_000_000, help="jobs that wait for others of their key")
    parser.add_argument("--keys", type=int, default=10_000, help="how many keys they have")
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(parser.parse_args()))
