"""absurd: each step is a call of a stored function with its own commit; a client has one connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.databases import connected, count, settle
from bench.peers.peer import STEPS, Call, WorkflowEngine, expect
from bench.peers.stopwatch import Moments, Tally, produced

UNFINISHED = "select count(*) from absurd.t_bench where state <> 'completed'"
CHECKPOINTS = "select count(*) from absurd.c_bench"
CLIENTS = 8
CONCURRENCY = 20


class Absurd(WorkflowEngine):
    name = "absurd"

    def __init__(self, batch: int | None) -> None:
        pass  # its claims are as large as its concurrency

    @property
    def version(self) -> str:
        return version("absurd-sdk")

    @property
    def settings(self) -> str:
        return (
            f"{CLIENTS} async clients in one process, uvloop, concurrency {CONCURRENCY},"
            f" batch_size {CONCURRENCY}, poll_interval 0.05 s"
        )

    async def prepare(self, database_url: str) -> None:
        async with connected(database_url) as conn:
            await conn.execute(BUNDLED_SCHEMA_SQL)
            await conn.execute("select absurd.create_queue('bench')")

    async def workflows(self, database_url: str, runs: int) -> float:
        tally = Tally(runs)

        async def workflow(params: Any, context: Any) -> None:
            tally.add()
            await _five_steps(context)

        client = AsyncAbsurd(database_url, queue_name="bench")
        for number in range(runs):
            await _spawn(client, number)
        await client.close()
        expect("workflows in the store", await count(database_url, UNFINISHED), runs)
        await settle(database_url)
        async with self._working(database_url, workflow):
            seconds = await tally.drained(database_url, UNFINISHED)
        expect("workflow runs", tally.runs, runs)
        expect("recorded steps", await count(database_url, CHECKPOINTS), runs * STEPS)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def workflow(params: Any, context: Any) -> None:
            await _five_steps(context)
            moments.note(params["n"])

        async with self._working(database_url, workflow):
            return await moments.wait(ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        client = AsyncAbsurd(database_url, queue_name="bench")
        try:
            return await produced(jobs, lambda number: _spawn(client, number))
        finally:
            await client.close()

    @asynccontextmanager
    async def _working(self, database_url: str, workflow: Any) -> AsyncIterator[None]:
        clients = [AsyncAbsurd(database_url, queue_name="bench") for _ in range(CLIENTS)]
        for client in clients:
            client.register_task("workflow")(workflow)
        running = [
            asyncio.create_task(
                client.start_worker(
                    worker_id=str(number), concurrency=CONCURRENCY, batch_size=CONCURRENCY, poll_interval=0.05
                )
            )
            for number, client in enumerate(clients)
        ]
        try:
            yield
        finally:
            for client in clients:
                client.stop_worker()
            await asyncio.gather(*running)
            for client in clients:
                await client.close()


async def _nothing() -> None:
    """A step that does nothing."""


async def _five_steps(context: Any) -> None:
    for number in range(STEPS):
        await context.step(f"step {number}", _nothing)


async def _spawn(client: Any, number: int) -> None:
    await client.spawn("workflow", {"n": number}, queue="bench")
