"""Atlas's workflows as its peers' are measured: requested, decided, run by one worker process, every step recorded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from atlas.actors import system
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.intents import NewIntent, request_workflows, take_intents
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows import run_engine_loop
from bench.peers.atlas import CONNECTIONS, UNFINISHED, AtlasPeer
from bench.peers.databases import count, settle
from bench.peers.peer import STEPS, Call, WorkflowEngine, expect
from bench.peers.stopwatch import Moments, Tally, produced

KEY = "bench.peer_steps"
RECORDED = "select count(*) from atlas.workflow_steps where status = 'succeeded'"
IN_FLIGHT = 400


class AtlasWorkflows(AtlasPeer, WorkflowEngine):
    @property
    def settings(self) -> str:
        return f"uvloop, {IN_FLIGHT} runs in flight, audit rows on"

    async def workflows(self, database_url: str, runs: int) -> float:
        tally = Tally(runs)

        async def steps(run: Run, input: dict[str, Any]) -> None:
            tally.add()
            await _five_steps(run)

        workflow(KEY)(steps)
        async with _opened(database_url) as pool:
            await _request(pool, range(runs))
            async with pool.acquire() as conn:
                while (await take_intents(conn, "bench")).claimed:
                    pass
            expect("runs in the store", await count(database_url, UNFINISHED), runs)
            await settle(database_url)
            async with _working(pool, database_url):
                seconds = await tally.drained(database_url, UNFINISHED)
        expect("workflow runs", tally.runs, runs)
        expect("recorded steps", await count(database_url, RECORDED), runs * STEPS)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def steps(run: Run, input: dict[str, Any]) -> None:
            await _five_steps(run)
            moments.note(input["n"])

        workflow(KEY)(steps)
        stop = asyncio.Event()
        async with _opened(database_url) as pool, _working(pool, database_url):
            deciding = asyncio.create_task(run_engine_loop(pool, stop, url=database_url))
            try:
                return await moments.wait(ready)
            finally:
                stop.set()
                await deciding

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        async with _opened(database_url) as pool:
            return await produced(jobs, lambda number: _request(pool, range(number, number + 1)))


async def _nothing() -> None:
    """A step that does nothing."""


async def _five_steps(run: Run) -> None:
    for number in range(STEPS):
        await run.step(f"step {number}", _nothing)


async def _request(pool: Pool, numbers: range) -> None:
    intents = [NewIntent(KEY, {"n": number}) for number in numbers]
    async with pool.acquire() as conn:
        await request_workflows(conn, SYSTEM_TENANT, intents, requested_by=system("bench"))


@asynccontextmanager
async def _opened(database_url: str) -> AsyncIterator[Pool]:
    pool = await open_pool(database_url, size=CONNECTIONS)
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def _working(pool: Pool, database_url: str) -> AsyncIterator[None]:
    worker = Worker(pool, database_url, WorkerOptions(["ENGINE_RUN"], concurrency=IN_FLIGHT))
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running
