"""How fast an existing installation moves its finished jobs into history, from the first to the last.

All jobs are in the hot table first, over 29 days and 200 tenants, as a version without history leaves them. Then the
scheduler's sweep runs, with its rests between batches. Each line is a tenth of the jobs: how many were moved in a
second, and how much of the server's processor time each took.

    python -m bench.history_move --folder DIR [--jobs 1000000] [--tenants 200]
"""

import argparse
import asyncio
import contextlib
import time
from pathlib import Path

import uvloop

from atlas.db.migrations import migrate
from atlas.db.pool import Connection, connect, open_pool
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.scheduler.maintenance import Maintenance
from bench.lists import make_history
from bench.peers.databases import at_database, server_us

# None is so young that it stays, or so old that it is removed.
AT = "now() - interval '1 day' - ($2::bigint - i) * interval '{seconds} seconds'"
DAYS = 28
MOVED = "select coalesce(sum(jobs), 0)::bigint from atlas.history_contents"
LEFT = """
select count(*) from only atlas.jobs
where status in ('succeeded', 'failed', 'canceled') and dead_lettered_at is null"""
TENTHS = 10


async def watch(owner: Connection, jobs: int) -> None:
    """Print a line for each tenth of the jobs, until it is canceled."""
    began, moved, spent = time.perf_counter(), 0, 0.0
    while True:
        await asyncio.sleep(0.25)
        now = await owner.fetchval(MOVED)
        if now - moved >= jobs / TENTHS:
            used, at = await server_us(owner), time.perf_counter()
            rate, each = (now - moved) / (at - began), (used - spent) / (now - moved)
            print(f"{now:>12,} moved: {rate:,.0f} jobs/s, {each:.0f} µs of the server a job", flush=True)
            began, moved, spent = at, now, used


async def main() -> None:
    """Make the jobs, move them, and print how fast."""
    parser = argparse.ArgumentParser(prog="python -m bench.history_move", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--folder", type=Path, required=True, help="where the server is; its database is made anew")
    chosen = parser.parse_args()
    configure_logs("error")
    server = await start_embedded(chosen.folder)
    try:
        admin = await connect(server.url("postgres"))
        await admin.execute("drop database if exists history_move with (force)")
        await admin.execute("create database history_move")
        await admin.close()
        url = at_database(server.url("postgres"), "history_move")
        await migrate(url)
        seconds = DAYS * 86_400 / chosen.jobs
        await make_history(url, chosen.jobs, chosen.tenants, at=AT.format(seconds=seconds))
        owner = await connect(url)
        # One session, so that it is the same whose processor time is read.
        pool = await open_pool(url, size=1)
        maintenance = Maintenance(pool, asyncio.Event())
        watching = asyncio.create_task(watch(owner, await owner.fetchval(LEFT)))
        began = time.perf_counter()
        await maintenance.prune()
        took = time.perf_counter() - began
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        moved, left = await owner.fetchval(MOVED), await owner.fetchval(LEFT)
        print(f"{moved:,} jobs were moved in {took:.0f} s, {moved / took:,.0f} a second; {left:,} are left")
        await pool.close()
        await owner.close()
    finally:
        server.release()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
