"""Workers under test: in this process, on a real database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import tests.workers.handlers  # noqa: F401  # registers the job types
from atlas.db.pool import Pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA, PROOF


@pytest.fixture(autouse=True)
def online() -> None:
    """Atlas is on, unless a test turns it off."""


@pytest.fixture
def options() -> Callable[..., WorkerOptions]:
    def make(*job_types: str, **chosen: Any) -> WorkerOptions:
        served = job_types or tuple(key for key in registered() if key.startswith("test."))
        return WorkerOptions(served, **{"poll": 0.2, "lease": 5, "concurrency": 10, **chosen})

    return make


@pytest.fixture
def drain(pool: Pool, database_url: str, options: Any) -> Callable[..., Awaitable[Worker]]:
    """Run a worker until nothing is due."""

    async def run(*job_types: str, **chosen: Any) -> Worker:
        # It does not listen: that takes a quarter of its time, and nothing new is enqueued from outside.
        worker = Worker(pool, database_url, options(*job_types, drain=True, **chosen), listen=False)
        async with asyncio.timeout(60 if PROOF else 30):
            await worker.run()
        return worker

    return run


@pytest.fixture
def serving(pool: Pool, database_url: str, options: Any) -> Any:
    """A worker that serves in the background for as long as the block lasts."""

    @asynccontextmanager
    async def serve(*job_types: str, **chosen: Any) -> AsyncIterator[Worker]:
        worker = Worker(pool, database_url, options(*job_types, **chosen))
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            async with asyncio.timeout(30):
                await task

    return serve


@pytest.fixture
def given(pool: Pool) -> Any:
    """Enqueue jobs; returns their ids."""

    async def make(job_type: str, *inputs: dict[str, Any], **chosen: Any) -> list[Any]:
        async with pool.acquire() as conn:
            jobs = [NewJob(job_type, one, **chosen) for one in inputs or ({},)]
            return [one.id for one in await enqueue_many(conn, jobs, actor=DANA)]

    return make
