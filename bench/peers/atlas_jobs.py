"""Atlas as its peers are measured: in a process of its own, an audit row for every enqueue and every outcome."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from atlas.db.pool import Connection, open_pool
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import BENCH
from bench.peers.atlas import CONNECTIONS, UNFINISHED, AtlasPeer
from bench.peers.databases import count, settle
from bench.peers.peer import Call, JobQueue, expect
from bench.peers.stopwatch import Moments, Tally, pieces, produced, timed

TYPE = "bench.peer"
RAN_ONCE = "select count(*) from atlas.jobs where attempt_count = 1"


class AtlasJobs(AtlasPeer, JobQueue):
    @property
    def settings(self) -> str:
        return f"uvloop, concurrency {WorkerOptions([]).concurrency}, batch {self.batch:,}, audit rows on"

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        return await self._enqueue(database_url, jobs, _enqueue_each)

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        return await self._enqueue(database_url, jobs, _enqueue_pieces)

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await settle(database_url)
        tally = Tally(jobs)

        async def noop(input: dict[str, Any]) -> None:
            tally.add()

        job(TYPE)(noop)
        async with self._working(database_url):
            seconds = await tally.drained(database_url, UNFINISHED)
        expect("handler runs", tally.runs, jobs)
        expect("jobs that ran once", await count(database_url, RAN_ONCE), jobs)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def noop(input: dict[str, Any]) -> None:
            moments.note(input["n"])

        job(TYPE)(noop)
        async with self._working(database_url):
            return await moments.wait(ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        async with _connection(database_url) as conn:
            return await produced(jobs, lambda number: enqueue(conn, NewJob(TYPE, {"n": number}), actor=BENCH))

    async def _enqueue(self, database_url: str, jobs: int, way: Callable[[Connection, int], Awaitable[None]]) -> float:
        async with _connection(database_url) as conn:
            seconds = await timed(way(conn, jobs))
        expect("jobs in the store", await count(database_url, UNFINISHED), jobs)
        return seconds

    @asynccontextmanager
    async def _working(self, database_url: str) -> AsyncIterator[None]:
        pool = await open_pool(database_url, size=CONNECTIONS)
        worker = Worker(pool, database_url, WorkerOptions([TYPE], batch=self.batch))
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running
            await pool.close()


@asynccontextmanager
async def _connection(database_url: str) -> AsyncIterator[Connection]:
    pool = await open_pool(database_url, size=1)
    try:
        async with pool.acquire() as conn:
            yield conn
    finally:
        await pool.close()


async def _enqueue_each(conn: Connection, jobs: int) -> None:
    for number in range(jobs):
        await enqueue(conn, NewJob(TYPE, {"n": number}), actor=BENCH)


async def _enqueue_pieces(conn: Connection, jobs: int) -> None:
    for piece in pieces(jobs):
        await enqueue_many(conn, [NewJob(TYPE, {"n": number}) for number in piece], actor=BENCH)
