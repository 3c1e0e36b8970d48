"""procrastinate: one fetch and one finish call per job; finished jobs are deleted, as for graphile-worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

import procrastinate

from bench.peers.databases import count, settle
from bench.peers.peer import Call, JobQueue, NotMeasured, expect
from bench.peers.stopwatch import Moments, Tally, pieces, produced, timed

UNFINISHED = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
STORED = "select count(*) from procrastinate_jobs"
CONCURRENCY = 10


class Procrastinate(JobQueue):
    name = "procrastinate"

    def __init__(self, batch: int | None) -> None:
        pass  # it fetches one job at a time

    @property
    def version(self) -> str:
        return version("procrastinate")

    @property
    def settings(self) -> str:
        return f"psycopg pool, uvloop, concurrency {CONCURRENCY}, delete_jobs always"

    async def prepare(self, database_url: str) -> None:
        async with _app(database_url) as app:
            await app.schema_manager.apply_schema_async()

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        async with _app(database_url, connections=1) as app:
            seconds = await timed(_enqueue_each(_task(app, _nothing), jobs))
        expect("jobs in the store", await count(database_url, UNFINISHED), jobs)
        return seconds

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        async with _app(database_url, connections=1) as app:
            seconds = await timed(_enqueue_pieces(_task(app, _nothing), jobs))
        expect("jobs in the store", await count(database_url, UNFINISHED), jobs)
        return seconds

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await settle(database_url)
        tally = Tally(jobs)

        async def noop(n: int) -> None:
            tally.add()

        async with _app(database_url) as app:
            _task(app, noop)
            async with _working(app):
                seconds = await tally.drained(database_url, UNFINISHED)
        expect("handler runs", tally.runs, jobs)
        expect("jobs left in the store", await count(database_url, STORED), 0)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def noop(n: int) -> None:
            moments.note(n)

        async with _app(database_url) as app:
            _task(app, noop)
            async with _working(app):
                return await moments.wait(ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        async with _app(database_url, connections=1) as app:
            task = _task(app, _nothing)
            return await produced(jobs, lambda number: task.defer_async(n=number))


@asynccontextmanager
async def _app(database_url: str, connections: int = CONCURRENCY + 2) -> AsyncIterator[procrastinate.App]:
    pool = procrastinate.PsycopgConnector(conninfo=database_url, min_size=connections, max_size=connections)
    app = procrastinate.App(connector=pool)
    async with app.open_async():
        yield app


def _task(app: procrastinate.App, handler: Callable[[int], Awaitable[None]]) -> Any:
    return app.task(name="noop")(handler)


@asynccontextmanager
async def _working(app: procrastinate.App) -> AsyncIterator[None]:
    running = asyncio.create_task(
        app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False)
    )
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _nothing(n: int) -> None:
    raise NotMeasured("A producer ran a job.")


async def _enqueue_each(task: Any, jobs: int) -> None:
    for number in range(jobs):
        await task.defer_async(n=number)


async def _enqueue_pieces(task: Any, jobs: int) -> None:
    for piece in pieces(jobs):
        await task.batch_defer_async(*[{"n": number} for number in piece])
