"""One worker process: `python -m bench.horizon.worker URL WORKLOAD`. Prints ten lines a second; SIGTERM ends it."""

import asyncio
import signal
import sys

import uvloop

from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.db.pool import open_pool
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.logs import configure_logs
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows import run_engine_loop
from bench.horizon.starts import REPORT_SECONDS
from bench.horizon.workloads import STARTS, TYPES, WORKFLOWS


async def work(url: str, workload: str) -> None:
    """Serve until SIGTERM."""
    pool = await open_pool(url, size=12)
    stop = asyncio.Event()
    with_runs = workload == WORKFLOWS
    worker = Worker(
        pool, url, WorkerOptions([ENGINE_RUN] if with_runs else TYPES, concurrency=200 if with_runs else 50)
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    relax_garbage_collection()
    running = asyncio.create_task(worker.run())
    engine = asyncio.create_task(run_engine_loop(pool, stop, url=url)) if with_runs else None
    while not running.done():
        await asyncio.wait([running], timeout=REPORT_SECONDS)
        STARTS.print()
    await running
    stop.set()
    if engine is not None:
        await engine
    await pool.close()


if __name__ == "__main__":
    configure_logs("error")
    uvloop.run(work(*sys.argv[1:]))
