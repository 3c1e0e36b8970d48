"""What every measurement of jobs stands on: a fresh database on the server, Atlas online, a no-op handler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from atlas.actors import Actor
from atlas.db.migrations import migrate
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from bench.peers.databases import connected, own_database, settle

BENCH = Actor("system", "bench")
PIECE = 5000


@job("bench.noop")
async def noop(input: dict[str, Any]) -> None:
    """Nothing: what is left is Atlas's own cost."""


@job("bench.sleep")
async def sleep(input: dict[str, Any]) -> None:
    """Waits in memory."""
    await asyncio.sleep(input["seconds"])


async def prepare(url: str) -> None:
    """Migrate an empty database and switch it online."""
    await migrate(url)
    async with connected(url) as conn:
        await switch(conn, online=True, actor=BENCH)


@asynccontextmanager
async def ground(server_url: str, purpose: str) -> AsyncIterator[tuple[Pool, str]]:
    """A migrated database that is online, and a pool on it."""
    async with own_database(server_url, purpose) as url:
        await prepare(url)
        pool = await open_pool(url, size=12)
        try:
            yield pool, url
        finally:
            await pool.close()


async def fill(pool: Pool, url: str, jobs: int, job_type: str = "bench.noop") -> None:
    """Queue that many jobs and let the planner know."""
    async with pool.acquire() as conn:
        for start in range(0, jobs, PIECE):
            piece = [NewJob(job_type, {"n": n}) for n in range(start, min(jobs, start + PIECE))]
            await enqueue_many(conn, piece, actor=BENCH)
    await settle(url)
