"""One worker process: `python -m bench.horizon.worker URL`. Prints ten lines of JSON each second; SIGTERM ends it."""

import asyncio
import signal
import sys

import uvloop

from atlas.cli.long_running import relax_garbage_collection
from atlas.db.pool import open_pool
from atlas.logs import configure_logs
from atlas.workers.worker import Worker, WorkerOptions
from bench.horizon.starts import REPORT_SECONDS
from bench.horizon.workloads import STARTS, TYPES


async def work(url: str) -> None:
    """Serve until SIGTERM."""
    pool = await open_pool(url, size=12)
    worker = Worker(pool, url, WorkerOptions(TYPES))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    relax_garbage_collection()
    running = asyncio.create_task(worker.run())
    while not running.done():
        await asyncio.wait([running], timeout=REPORT_SECONDS)
        STARTS.print()
    await running
    await pool.close()


if __name__ == "__main__":
    configure_logs("error")
    uvloop.run(work(sys.argv[1]))
