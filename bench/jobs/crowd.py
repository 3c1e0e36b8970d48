"""A claim behind many other jobs, and the memory of a worker that holds many: neither may grow with their number."""

import asyncio
import gc
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median

import psutil

from atlas.db.pool import Pool, connect
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import BENCH, fill, ground
from bench.peers.databases import settle

CLAIMS = 200
CROWDS = {
    "finished": "'bench.noop', 'succeeded', now(), null",
    "future": "'bench.noop', 'queued', null, now() + interval '30 days'",
    "other types": "'bench.other', 'queued', null, null",
}


@dataclass(frozen=True, slots=True)
class Crowd:
    """Median milliseconds of a claim of one job behind a crowd, and of one on an empty table, in turn."""

    name: str
    behind: float
    empty: float


async def measure_claims(server_url: str, *, crowd: int) -> list[Crowd]:
    """Claims behind each crowd, in turn with claims on a table without one."""
    rows = []
    async with ground(server_url, "crowd") as (empty, empty_url):
        await fill(empty, empty_url, len(CROWDS) * CLAIMS + 100)
        for name, values in CROWDS.items():
            async with ground(server_url, "crowd") as (pool, url):
                await fill(pool, url, CLAIMS + 100)
                owner = await connect(url)
                await owner.execute(
                    "insert into atlas.jobs (tenant_id, job_type, status, finished_at, next_retry_at)"
                    f" select '00000000-0000-7000-8000-000000000001', {values} from generate_series(1, {crowd:d})"
                )
                await owner.close()
                await settle(url)
                rows.append(Crowd(name, *await _claims(pool, empty)))
    return rows


async def _claims(*pools: Pool) -> list[float]:
    """Median milliseconds of a claim over each of these pools; they take turns."""
    took: list[list[float]] = [[] for _ in pools]
    async with AsyncExitStack() as stack:
        claimants = []
        for pool in pools:
            conn = await stack.enter_async_context(pool.acquire())
            worker = new_worker_id()
            await register_worker(conn, worker, lease=600, job_types=["bench.noop"])
            claimants.append((conn, Claimant(worker, ["bench.noop"])))
        for n in range(CLAIMS):
            for nth, (conn, claimant) in enumerate(claimants):
                began = time.perf_counter()
                assert len(await claim(conn, claimant, limit=1)) == 1
                if n >= CLAIMS // 4:
                    took[nth].append((time.perf_counter() - began) * 1000)
    return list(map(median, took))


async def measure_memory(server_url: str, *, sleeping: int = 1000) -> float:
    """Megabytes of this process while a worker holds that many sleeping jobs."""
    async with ground(server_url, "memory") as (pool, url):
        async with pool.acquire() as conn:
            jobs = [NewJob("bench.sleep", {"seconds": 600}) for _ in range(sleeping)]
            await enqueue_many(conn, jobs, actor=BENCH)
        worker = Worker(pool, url, WorkerOptions(["bench.sleep"], concurrency=sleeping, grace=0))
        running = asyncio.create_task(worker.run())
        while await pool.fetchval("select count(*) from atlas.jobs where status = 'running'") < sleeping:
            await asyncio.sleep(0.1)
        gc.collect()
        megabytes: float = psutil.Process().memory_info().rss / 2**20
        worker.stop()
        await running
    return megabytes
