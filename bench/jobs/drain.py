"""Drain: one Atlas process through real handlers, beside its own statements driven bare in the same run.

The clock is the database's: it runs from the first claim to the last recorded outcome, as it does for the peers.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from atlas.db.pool import Pool, connect
from atlas.engine.jobs.claim import Claimant
from atlas.engine.jobs.finish import Finish, finish_and_claim
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.engine.jobs.verdicts import succeed
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import fill, ground

TYPE = "bench.noop"


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs a second, each way, round by round."""

    bare: list[float]
    worker: list[float]
    limited_elsewhere: list[float]
    unaudited: list[float]


def in_turn(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How two ways compare that took turns: the median of the rounds, each against its neighbour in time."""
    return median(own / other for own, other in zip(ours, theirs, strict=True))


async def measure(server_url: str, *, jobs: int, batch: int = 1000, repeats: int = 5) -> Drained:
    """Some rounds each way, in turn, so that what else the machine does disturbs all alike."""
    drained = Drained([], [], [], [])
    for _ in range(repeats):
        async with ground(server_url, "drain") as (pool, url):
            await fill(pool, url, jobs)
            drained.bare.append(jobs / await drive_bare(pool, batch))
        drained.worker.append(await measure_worker(server_url, jobs=jobs, batch=batch))
        async with ground(server_url, "drain") as (pool, url):
            await _audit_no_outcome(url)
            await fill(pool, url, jobs)
            drained.unaudited.append(jobs / await drive_worker(pool, url, batch))
        async with ground(server_url, "drain") as (pool, url):
            await pool.execute("insert into atlas.job_types (key, concurrency) values ('bench.other', 3)")
            await fill(pool, url, jobs)
            drained.limited_elsewhere.append(jobs / await drive_worker(pool, url, batch))
    return drained


async def measure_worker(server_url: str, *, jobs: int, batch: int = 1000) -> float:
    """One drain by a worker: jobs a second."""
    async with ground(server_url, "drain") as (pool, url):
        await fill(pool, url, jobs)
        return jobs / await drive_worker(pool, url, batch)


async def _audit_no_outcome(url: str) -> None:
    """Take the audit rows out of the turn, in this database, to see what they cost."""
    conn = await connect(url)
    try:
        turn = await conn.fetchval("select pg_get_functiondef('atlas.finish'::regproc)")
        mute, changed = re.subn(
            r",\s*aud as \(\s*insert into audit_log.*?from fin f( where [^)]*)?\)", "", turn, flags=re.S
        )
        assert changed == 2, f"{changed} audit inserts found in the turn"
        await conn.execute(mute)
    finally:
        await conn.close()


async def drive_bare(pool: Pool, batch: int) -> float:
    """Seconds for the turn alone: two connections, no handlers, no loop around it."""
    worker = new_worker_id()
    async with pool.acquire() as conn:
        await register_worker(conn, worker, lease=600, job_types=[TYPE])
    claimant = Claimant(worker, [TYPE])

    async def pipeline() -> None:
        finishes: list[Finish] = []
        async with pool.acquire() as conn:
            while True:
                turn = await finish_and_claim(conn, claimant, finishes, slots=batch)
                finishes = [succeed(job, worker, None, "JOB_SUCCEEDED") for job in turn.claimed]
                if not finishes:
                    return

    await asyncio.gather(pipeline(), pipeline())
    return await seconds_of_drain(pool)


async def drive_worker(pool: Pool, url: str, batch: int) -> float:
    """Seconds for a worker with registered handlers, until nothing is due."""
    await Worker(pool, url, WorkerOptions([TYPE], batch=batch, drain=True)).run()
    return await seconds_of_drain(pool)


async def seconds_of_drain(pool: Pool) -> float:
    """From the first claim to the last outcome, if every job ended once."""
    left = await pool.fetchval("select count(*) from atlas.jobs where status <> 'succeeded' or attempt_count <> 1")
    assert left == 0, f"{left} jobs did not end as they should"
    return float(await pool.fetchval("select extract(epoch from max(finished_at) - min(started_at)) from atlas.jobs"))
