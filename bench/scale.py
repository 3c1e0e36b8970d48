"""What one Postgres carries: by worker processes, by ended jobs that are kept, and by connections.

`python -m bench.scale` uses the server in DATABASE_URL, or an embedded one. `--rows` and `--connections` name the
steps; a number of connections that the server does not allow is left out and said so.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from atlas.db.pool import Connection, connect, open_pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import BENCH, fill, ground
from bench.peers.databases import settle

# Half of the jobs that are kept are the system's own, as those that are measured: the same parts of the indexes grow.
KEPT = """
insert into atlas.jobs (tenant_id, job_type, status, created_at, started_at, finished_at, attempt_count, claimed_by)
select case when n % 2 = 0 then '00000000-0000-7000-8000-000000000001' else md5((n % 1000)::text)::uuid end,
  'bench.noop', 'succeeded', now() - n * interval '1 second', now(), now(), 1, 'before'
from generate_series(1, $1) n"""
MEASURED = """
select count(*), extract(epoch from max(finished_at) - min(started_at)) from atlas.jobs where claimed_by <> 'before'"""
ROOM = "select current_setting('max_connections')::int - count(*)::int - 20 from pg_stat_activity"


async def drain(server: str, *, kept: int, processes: int, jobs: int) -> float:
    """Jobs a second that these worker processes finish beside this many finished jobs."""
    async with ground(server, "scale") as (pool, url):
        await _keep(url, kept)
        await fill(pool, url, jobs)
        running = [
            await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.scale", "--drain", url)
            for _ in range(processes)
        ]
        assert await asyncio.gather(*(process.wait() for process in running)) == [0] * processes
        ended, seconds = await pool.fetchrow(MEASURED)
        assert ended == jobs, f"{ended} of {jobs} jobs have ended"
        return jobs / float(seconds)


async def enqueue_singly(server: str, *, kept: int, connections: int, jobs: int) -> float:
    """Jobs a second over this many connections, each of which enqueues one after the other."""
    async with ground(server, "scale") as (_pool, url), AsyncExitStack() as stack:
        await _keep(url, kept)
        pool = await stack.enter_async_context(await open_pool(url, size=connections))
        opened = [await stack.enter_async_context(pool.acquire()) for _ in range(connections)]
        left = iter(range(jobs))

        async def call(conn: Connection) -> None:
            for _ in left:
                await enqueue(conn, NewJob("bench.noop", {}), actor=BENCH)

        await asyncio.gather(*(enqueue(conn, NewJob("bench.noop", {}), actor=BENCH) for conn in opened))
        began = time.perf_counter()
        await asyncio.gather(*map(call, opened))
        return jobs / (time.perf_counter() - began)


async def _keep(url: str, rows: int) -> None:
    owner = await connect(url)
    try:
        await owner.execute(KEPT.replace("$1", str(rows)))
        await owner.execute("vacuum analyze atlas.jobs")
    finally:
        await owner.close()
    await settle(url)


async def _drain_here(url: str) -> None:
    """One worker process."""
    pool = await open_pool(url, size=12)
    await Worker(pool, url, WorkerOptions(["bench.noop"], batch=1000, drain=True)).run()
    await pool.close()


async def _measure(server: str, chosen: argparse.Namespace) -> Table:
    conn = await connect(server)
    room = await conn.fetchval(ROOM)
    await conn.close()
    table = Table("what", "ended jobs kept", "beside", "jobs/s")
    for kept in chosen.rows:
        for processes in chosen.processes:
            rate = await drain(server, kept=kept, processes=processes, jobs=chosen.jobs)
            table.add_row("drain", f"{kept:,}", f"{processes} worker processes", f"{rate:,.0f}")
        for connections in chosen.connections:
            text = f"the server has room for {room}"
            if connections <= room:
                jobs = max(10 * connections, chosen.jobs // 10)
                text = f"{await enqueue_singly(server, kept=kept, connections=connections, jobs=jobs):,.0f}"
            table.add_row("enqueue one by one", f"{kept:,}", f"{connections} connections", text)
    return table


async def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    numbers: dict[str, Any] = {"type": int, "nargs": "+"}
    parser.add_argument("--rows", **numbers, default=[0, 100_000, 1_000_000], help="ended jobs that are kept")
    parser.add_argument("--processes", **numbers, default=[1, 2, 4], help="worker processes")
    parser.add_argument("--connections", **numbers, default=[10, 100, 400], help="connections that enqueue")
    parser.add_argument(
        "--jobs", type=int, default=100_000, help="jobs to drain; a tenth of them is enqueued one by one"
    )
    parser.add_argument("--drain", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    configure_logs("error")
    if chosen.drain:
        await _drain_here(chosen.drain)
        return
    with tempfile.TemporaryDirectory() as home:
        server = (
            None
            if os.environ.get("DATABASE_URL")
            else await start_embedded(Path(home), settings={"max_connections": "500"})
        )
        try:
            address = os.environ.get("DATABASE_URL") if server is None else server.url("postgres")
            assert address is not None
            Console().print(await _measure(address, chosen))
        finally:
            if server is not None:
                server.release()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
