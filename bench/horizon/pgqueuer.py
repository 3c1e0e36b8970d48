"""pgqueuer under the same load: `python -m bench.horizon.pgqueuer URL work`, or `… URL offer RATE SECONDS`."""

import asyncio
import signal
import sys
import time
from typing import Any

import orjson
import uvloop
from pgqueuer import Job, Queries

from bench.horizon.load import TICK_SECONDS
from bench.horizon.starts import REPORT_SECONDS, StartCounts, show_offered
from bench.peers.databases import connected
from bench.peers.pgqueuer import Pgqueuer


async def work(url: str) -> None:
    """Serve until SIGTERM."""
    starts, stop = StartCounts(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def handle(job: Job) -> None:
        starts.started(orjson.loads(job.payload or b"")["at"])
        starts.done += 1

    async with Pgqueuer(None).working(url, handle):
        while not stop.is_set():
            await asyncio.sleep(REPORT_SECONDS)
            starts.print()


async def offer(url: str, rate: float, seconds: float) -> None:
    """Enqueue at a steady rate until the time is over."""
    async with connected(url) as conn:
        queries: Any = Queries.from_asyncpg_connection(conn)
        show_offered(0)
        offered = reported = 0
        began = reported_at = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            count = int((now - began) * rate) - offered
            if count > 0:
                payload = orjson.dumps({"at": time.time()})
                await queries.enqueue(["noop"] * count, [payload] * count, [0] * count)
                offered += count
            if now - reported_at >= REPORT_SECONDS:
                show_offered(offered - reported)
                reported, reported_at = offered, now
            await asyncio.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - now)))
        show_offered(offered - reported)


if __name__ == "__main__":
    url, verb, *numbers = sys.argv[1:]
    uvloop.run(work(url) if verb == "work" else offer(url, *map(float, numbers)))
