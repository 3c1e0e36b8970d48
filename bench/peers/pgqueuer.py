"""pgqueuer: deletes a finished job and writes three log rows for it; dispatches a task per job."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import asyncpg
from pgqueuer import Job, PgQueuer, Queries

from bench.peers.databases import connected, count, settle
from bench.peers.peer import Call, Enqueue, JobQueue, Started, expect
from bench.peers.stopwatch import Moments, Tally, pieces, produced, timed

UNFINISHED = "select count(*) from pgqueuer"
SUCCESSFUL = "select count(*) from pgqueuer_log where status = 'successful'"


class Pgqueuer(JobQueue):
    name = "pgqueuer"

    def __init__(self, batch: int | None) -> None:
        self.batch = batch or 1000

    @property
    def version(self) -> str:
        return version("pgqueuer")

    @property
    def settings(self) -> str:
        return f"asyncpg pool, uvloop, batch_size {self.batch:,}"

    async def prepare(self, database_url: str) -> None:
        async with connected(database_url) as conn:
            await Queries.from_asyncpg_connection(conn).install()

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        async with connected(database_url) as conn:
            seconds = await timed(_enqueue_each(Queries.from_asyncpg_connection(conn), jobs))
        expect("jobs in the store", await count(database_url, UNFINISHED), jobs)
        return seconds

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        async with connected(database_url) as conn:
            seconds = await timed(_enqueue_pieces(Queries.from_asyncpg_connection(conn), jobs))
        expect("jobs in the store", await count(database_url, UNFINISHED), jobs)
        return seconds

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await settle(database_url)
        tally = Tally(jobs)

        async def noop(job: Job) -> None:
            tally.add()

        async with self.working(database_url, noop):
            seconds = await tally.drained(database_url, UNFINISHED)
        expect("handler runs", tally.runs, jobs)
        expect("jobs logged as successful", await count(database_url, SUCCESSFUL), jobs)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def noop(job: Job) -> None:
            moments.note(json.loads(job.payload or b"")["n"])

        async with self.working(database_url, noop):
            return await moments.wait(ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        async with connected(database_url) as conn:
            queries = Queries.from_asyncpg_connection(conn)
            return await produced(jobs, lambda number: queries.enqueue("noop", _payload(number)))

    @asynccontextmanager
    async def serving(self, database_url: str, started: Started) -> AsyncIterator[None]:
        """A worker for a steady load."""

        async def noop(job: Job) -> None:
            started(json.loads(job.payload or b"")["n"])

        async with self.working(database_url, noop):
            yield

    @asynccontextmanager
    async def enqueuing(self, database_url: str) -> AsyncIterator[Enqueue]:
        """Enqueues a steady load over one connection."""
        async with connected(database_url) as conn:
            queries: Any = Queries.from_asyncpg_connection(conn)
            yield lambda count, number: queries.enqueue(["noop"] * count, [_payload(number)] * count, [0] * count)

    @asynccontextmanager
    async def working(self, database_url: str, handler: Callable[[Job], Awaitable[None]]) -> AsyncIterator[None]:
        """A worker with this handler, for as long as the block."""
        async with asyncpg.create_pool(database_url, min_size=4, max_size=8) as pool:
            queue = PgQueuer.from_asyncpg_pool(pool)
            queue.entrypoint("noop")(handler)
            running = asyncio.create_task(queue.run(batch_size=self.batch, dequeue_timeout=timedelta(seconds=5)))
            try:
                yield
            finally:
                queue.shutdown.set()
                with suppress(asyncio.CancelledError):
                    await running


async def _enqueue_each(queries: Any, jobs: int) -> None:
    for number in range(jobs):
        await queries.enqueue("noop", _payload(number))


async def _enqueue_pieces(queries: Any, jobs: int) -> None:
    for piece in pieces(jobs):
        await queries.enqueue(["noop"] * len(piece), [_payload(number) for number in piece], [0] * len(piece))


def _payload(number: int) -> bytes:
    return json.dumps({"n": number}).encode()
