"""What stands in front of a claim, and what a worker weighs: neither may grow with the crowd."""

import asyncio
import gc
import time
from dataclasses import dataclass
from statistics import median

import psutil

from atlas.pool import Pool, connect
from bench.jobs.ground import BENCH, fill, ground
from bench.peers.databases import settle
from engine.jobs import Claimant, NewJob, claim, enqueue_many
from engine.jobs.lease import new_worker_id, register_worker
from workers.worker import Worker, WorkerOptions

CLAIMS = 200
CROWDS = {
    "finished": "'bench.noop', 'succeeded', now(), null",
    "future": "'bench.noop', 'queued', null, now() + interval '30 days'",
    "other types": "'bench.other', 'queued', null, null",
}


@dataclass(frozen=True, slots=True)
class Crowd:
    """Median milliseconds of a claim of one job on an empty table, and behind each crowd."""

    empty: float
    behind: dict[str, float]


async def measure_claims(server_url: str, *, crowd: int) -> Crowd:
    """The same claims on the same table, before and after the crowd has come."""
    behind = {}
    empties = []
    for name, values in CROWDS.items():
        async with ground(server_url, "crowd") as (pool, url):
            await fill(pool, url, 2 * CLAIMS + 100)
            empties.append(await _claims(pool))
            owner = await connect(url)
            await owner.execute(
                "insert into jobs (tenant_id, job_type, status, finished_at, next_retry_at)"
                f" select '00000000-0000-7000-8000-000000000001', {values} from generate_series(1, {crowd:d})"
            )
            await owner.close()
            await settle(url)
            behind[name] = await _claims(pool)
    return Crowd(median(empties), behind)


async def _claims(pool: Pool) -> float:
    worker = new_worker_id()
    took = []
    async with pool.acquire() as conn:
        await register_worker(conn, worker, lease=600, job_types=["bench.noop"])
        claimant = Claimant(worker, ["bench.noop"])
        for n in range(CLAIMS):
            began = time.perf_counter()
            assert len(await claim(conn, claimant, limit=1)) == 1
            if n >= CLAIMS // 4:
                took.append((time.perf_counter() - began) * 1000)
    return median(took)


async def measure_memory(server_url: str, *, sleeping: int = 1000) -> float:
    """Megabytes of this process while a worker holds that many sleeping jobs."""
    async with ground(server_url, "memory") as (pool, url):
        async with pool.acquire() as conn:
            jobs = [NewJob("bench.sleep", {"seconds": 600}) for _ in range(sleeping)]
            await enqueue_many(conn, jobs, actor=BENCH)
        worker = Worker(pool, url, WorkerOptions(["bench.sleep"], concurrency=sleeping, grace=0))
        running = asyncio.create_task(worker.run())
        while await pool.fetchval("select count(*) from jobs where status = 'running'") < sleeping:
            await asyncio.sleep(0.1)
        gc.collect()
        megabytes: float = psutil.Process().memory_info().rss / 2**20
        worker.stop()
        await running
    return megabytes
