"""Offers jobs at a steady rate: `python -m bench.horizon.load URL WORKLOAD RATE SECONDS`, for all tenants in turn.

Prints a line of JSON when it begins, and then ten each second with the number of jobs that were enqueued. The rate is
kept by the clock: after a slow call the next one has more jobs.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from atlas.db.pool import open_pool
from bench.horizon.starts import REPORT_SECONDS, show_offered
from bench.horizon.workloads import offer

# Between two calls.
TICK_SECONDS = 0.01
# Jobs of one call, after a slow one.
MAX_BATCH = 2_000


async def offer_steadily(url: str, workload: str, rate: float, seconds: float) -> None:
    """Enqueue until the time is over."""
    pool = await open_pool(url, size=1)
    async with pool.acquire() as conn:
        tenants = [row["id"] for row in await conn.fetch("select id from atlas.tenants order by id")]
        await pace(rate, seconds, lambda jobs: offer(conn, workload, jobs, time.time(), tenants))
    await pool.close()


async def pace(rate: float, seconds: float, enqueue: Callable[[range], Awaitable[object]]) -> None:
    """Enqueue the jobs of these numbers at a steady rate, and report how many there were."""
    show_offered(0)
    offered = reported = 0
    began = reported_at = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        count = min(int((now - began) * rate) - offered, MAX_BATCH)
        if count > 0:
            await enqueue(range(offered, offered + count))
            offered += count
        if now - reported_at >= REPORT_SECONDS:
            show_offered(offered - reported)
            reported, reported_at = offered, now
        await asyncio.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - now)))
    show_offered(offered - reported)


if __name__ == "__main__":
    url, workload, rate, seconds = sys.argv[1:]
    uvloop.run(offer_steadily(url, workload, float(rate), float(seconds)))
