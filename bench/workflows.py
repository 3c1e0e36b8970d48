"""What a durable step costs: runs of five steps that do nothing, each recorded before the next begins.

- `runs_per_second`: the runs lie in the store as queued jobs; the clock runs from the first step's start until
  no run is left, as for the peers.
- `end_to_end_per_second`: from asking for the runs to the end of the last, with intents, policy and engine loop.
- `step_ms`: one run alone, many steps after one another.

    python -m bench.workflows [--runs 1000] [--steps 5] [--rounds 3]
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

import atlas.workers.workflows
from atlas.actors import system
from atlas.db.pool import Pool
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.intents import NewIntent, request_workflows, take_intents
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import ground
from bench.peers.databases import settle
from bench.peers.peer import expect

ACTOR = system("bench")
IN_FLIGHT = 400
ALONE_STEPS = 300

_started: list[float] = []


async def nothing() -> None:
    """A step that does nothing."""


@workflow("bench.steps")
async def steps(run: Run, input: dict[str, Any]) -> None:
    """So many steps after one another."""
    _started.append(time.perf_counter())
    for number in range(input["steps"]):
        await run.step(f"step {number}", nothing)


async def run(pool: Pool, url: str, *, runs: int = 1000, count: int = 5, rounds: int = 3) -> dict[str, Any]:
    """The figures, as medians of the rounds."""
    await _queued(pool, url, 100, count)
    queued = [await _queued(pool, url, runs, count) for _ in range(rounds)]
    through = [await _end_to_end(pool, url, runs, count) for _ in range(rounds)]
    alone = [await _alone(pool, url) for _ in range(rounds)]
    rate = runs / statistics.median(queued)
    return {
        "runs": runs,
        "steps": count,
        "rounds": rounds,
        "in_flight": IN_FLIGHT,
        "runs_per_second": round(rate),
        "steps_per_second": round(rate * count),
        "end_to_end_per_second": round(runs / statistics.median(through)),
        "step_ms": round(statistics.median(alone), 3),
    }


async def _queued(pool: Pool, url: str, runs: int, count: int) -> float:
    """Seconds from the first step to the end of the last run, of runs that are queued when the worker starts."""
    await _request(pool, runs, count)
    async with pool.acquire() as conn:
        while (await take_intents(conn, "bench")).claimed:
            pass
    await settle(url)
    _started.clear()
    await _drain(pool, url, IN_FLIGHT)
    ended = time.perf_counter()
    await _check(pool, runs, count)
    return ended - min(_started)


async def _end_to_end(pool: Pool, url: str, runs: int, count: int) -> float:
    """Seconds from asking for the runs to the end of the last, engine loop included."""
    stop = asyncio.Event()
    worker = Worker(pool, url, WorkerOptions(job_types=["ENGINE_RUN"], concurrency=IN_FLIGHT))
    tasks = [
        asyncio.create_task(worker.run()),
        asyncio.create_task(atlas.workers.workflows.run_engine_loop(pool, stop, url=url)),
    ]
    await asyncio.sleep(0.5)
    began = time.perf_counter()
    await _request(pool, runs, count)
    while worker.finished < runs:
        await asyncio.sleep(0.002)
    ended = time.perf_counter()
    stop.set()
    worker.stop()
    await asyncio.gather(*tasks)
    await _check(pool, runs, count)
    return ended - began


async def _alone(pool: Pool, url: str) -> float:
    """Milliseconds of one step of a run that shares its statement with no other."""
    await _request(pool, 1, ALONE_STEPS)
    async with pool.acquire() as conn:
        await take_intents(conn, "bench")
    _started.clear()
    await _drain(pool, url, 1)
    took = time.perf_counter() - _started[0]
    await _check(pool, 1, ALONE_STEPS)
    return took / ALONE_STEPS * 1000


async def _request(pool: Pool, runs: int, count: int) -> None:
    asked = [NewIntent("bench.steps", {"steps": count}) for _ in range(runs)]
    async with pool.acquire() as conn:
        await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=ACTOR)


async def _drain(pool: Pool, url: str, concurrency: int) -> None:
    await Worker(pool, url, WorkerOptions(job_types=["ENGINE_RUN"], concurrency=concurrency, drain=True)).run()


async def _check(pool: Pool, runs: int, count: int) -> None:
    """Refuse figures whose end state is wrong, and delete the rows for the next."""
    async with pool.acquire() as conn:
        ended = await conn.fetchval("select count(*) from atlas.jobs where status = 'succeeded'")
        recorded = await conn.fetchval("select count(*) from atlas.workflow_steps where status = 'succeeded'")
        executed = await conn.fetchval("select count(*) from atlas.intents where status = 'executed'")
        await conn.execute("delete from atlas.jobs; delete from atlas.intents")
    expect("ended runs", ended, runs)
    expect("recorded steps", recorded, runs * count)
    expect("executed intents", executed, runs)


async def main() -> None:
    """Measure on an embedded server with its ordinary settings and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.workflows", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    configure_logs("error")
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home))
        try:
            url = server.url("postgres")
            async with ground(url, "workflows") as (pool, own):
                figures = await run(pool, own, runs=chosen.runs, count=chosen.steps, rounds=chosen.rounds)
        finally:
            server.release()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    uvloop.run(main())
