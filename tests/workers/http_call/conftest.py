"""What the tests of calls start from: a receiver on loopback that calls may reach, and a worker that drains."""

from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import pytest

from atlas.db.pool import Pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.find import JobRow, get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.settings import Settings
from atlas.workers.http_call import register_http_call
from atlas.workers.http_call.handler import HttpCaller
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA
from tests.workers.http_call.receiver import Receiver

LOOPBACK = (ip_network("127.0.0.0/8"),)


class Calls:
    """A worker that serves HTTP_CALL, run only when a test says so."""

    def __init__(self, pool: Pool, url: str) -> None:
        self.pool = pool
        self.url = url
        self._callers: list[HttpCaller] = []
        self.allow(LOOPBACK)

    def allow(self, networks: tuple[Any, ...]) -> None:
        """Let calls reach these networks beside the public ones."""
        settings = Settings(atlas_http_allowed_networks=networks)
        self._callers.append(register_http_call(settings))

    async def enqueue(self, **input: Any) -> UUID:
        async with self.pool.acquire() as conn:
            return (await enqueue(conn, NewJob("HTTP_CALL", input), actor=DANA)).id

    async def drain(self) -> None:
        options = WorkerOptions(job_types=["HTTP_CALL"], drain=True, poll=0.05, lease=5)
        await Worker(self.pool, self.url, options, listen=False).run()

    async def run(self, job_id: UUID) -> JobRow:
        """Run what is due, once, and return what became of the job."""
        await self.drain()
        found = await get_job(self.pool, job_id)
        assert found is not None
        return found

    async def call(self, **input: Any) -> JobRow:
        return await self.run(await self.enqueue(**input))

    async def make_due(self, job_id: UUID) -> None:
        await self.pool.execute("update atlas.jobs set next_retry_at = clock_timestamp() where id = $1", job_id)

    async def close(self) -> None:
        for caller in self._callers:
            await caller.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().running() as receiver:
        yield receiver


@pytest.fixture
async def calls(pool: Pool, database_url: str) -> AsyncIterator[Calls]:
    """Atlas makes calls, also to loopback."""
    calls = Calls(pool, database_url)
    yield calls
    await calls.close()
