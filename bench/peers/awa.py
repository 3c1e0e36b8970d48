"""Awa: a Rust core with Python handlers; finished jobs leave receipts in tables that are rotated, not updated."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from awa import AsyncClient

from bench.peers.databases import settle
from bench.peers.peer import Call, Enqueue, JobQueue, Started, expect
from bench.peers.stopwatch import Clock, Moments, Tally, pieces, produced, timed

QUEUE = "bench"
CONCURRENCY = 256
CONNECTIONS = 50
POLL_MS = 50


@dataclass
class Noop:
    """The input of a job."""

    n: int


class Awa(JobQueue):
    name = "awa"

    def __init__(self, batch: int | None) -> None:
        pass  # it sizes its claims itself

    @property
    def version(self) -> str:
        return version("awa-pg")

    @property
    def settings(self) -> str:
        return f"{CONCURRENCY} workers, {CONNECTIONS} connections, poll every {POLL_MS} ms, queue storage, COPY in bulk"

    async def prepare(self, database_url: str) -> None:
        client = AsyncClient(_with_host(database_url))
        await client.migrate()
        await client.install_queue_storage()

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        client = AsyncClient(_with_host(database_url), max_connections=1)

        async def enqueue_each() -> None:
            for number in range(jobs):
                await client.insert(Noop(number), queue=QUEUE)

        seconds = await timed(enqueue_each())
        expect("jobs in the store", await _waiting(client), jobs)
        return seconds

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        client = AsyncClient(_with_host(database_url), max_connections=1)

        async def enqueue_pieces() -> None:
            for piece in pieces(jobs):
                await client.enqueue_many_copy([Noop(number) for number in piece], queue=QUEUE)

        seconds = await timed(enqueue_pieces())
        expect("jobs in the store", await _waiting(client), jobs)
        return seconds

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await settle(database_url)
        tally = Tally(jobs)

        async def noop(job: Any) -> None:
            tally.add()

        async with _working(database_url, noop) as client:
            await tally.all.wait()
            while await _waiting(client):
                pass
            seconds = Clock() - tally.started_at
        expect("handler runs", tally.runs, jobs)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        async def noop(job: Any) -> None:
            moments.note(job.args.n)

        async with _working(database_url, noop):
            return await moments.wait(ready)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        client = AsyncClient(_with_host(database_url), max_connections=1)
        return await produced(jobs, lambda number: client.insert(Noop(number), queue=QUEUE))

    @asynccontextmanager
    async def serving(self, database_url: str, started: Started) -> AsyncIterator[None]:
        """A worker for a steady load."""

        async def noop(job: Any) -> None:
            started(job.args.n)

        async with _working(database_url, noop):
            yield

    @asynccontextmanager
    async def enqueuing(self, database_url: str) -> AsyncIterator[Enqueue]:
        """Enqueues a steady load over one connection."""
        client = AsyncClient(_with_host(database_url), max_connections=1)
        yield lambda count, number: client.enqueue_many_copy([Noop(number)] * count, queue=QUEUE)


def _with_host(database_url: str) -> str:
    """Its driver asks for a host in the address, also where the socket's folder stands behind it."""
    return database_url.replace("@/", "@localhost/", 1)


@asynccontextmanager
async def _working(database_url: str, handler: Any) -> AsyncIterator[Any]:
    client = AsyncClient(_with_host(database_url), max_connections=CONNECTIONS)
    client.task(Noop, queue=QUEUE)(handler)
    await client.start([(QUEUE, CONCURRENCY)], poll_interval_ms=POLL_MS)
    try:
        yield client
    finally:
        await client.shutdown()


async def _waiting(client: Any) -> int:
    """Jobs that are not finished, as Awa counts them."""
    return sum(stat.total_queued for stat in await client.queue_stats() if stat.queue == QUEUE)
