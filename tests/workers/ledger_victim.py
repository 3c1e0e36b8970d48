"""Worker processes that kill themselves around a commit: `python -m tests.workers.ledger_victim URL APPLICATION_URL`.

For every point read from stdin a worker is forked, and its exit code is printed. A point is `before N` (the handler of
its N-th transaction has written, and nothing is committed), `during N` (it dies within two milliseconds of sending the
commit), `after N` (it is committed, and the worker does not know it yet), `lease N` (it lives, and its lease is over
before that commit), or `never`.
"""

import os
import random
import signal
import sys
import threading
import time
from typing import Any

import atlas.workers.workflows
from atlas.db.pool import Connection, connect, open_pool
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.workers.worker import Worker, WorkerOptions
from tests.workers.killed_workers import fork_workers

STEPS = 5
CONCURRENCY = 10

chosen = ("never", 0)
count = 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon() -> None:
    time.sleep(random.random() * 0.002)
    die()


def reach() -> None:
    """A handler has written."""
    global count
    count += 1
    if chosen == ("before", count):
        die()
    if chosen == ("during", count):
        threading.Thread(target=die_soon).start()


async def lose_lease() -> None:
    """As if no heartbeat had reached the server in time."""
    if chosen == ("lease", count):
        conn = await connect(sys.argv[1])
        await conn.execute("update atlas.job_workers set lease_expires_at = clock_timestamp() where dead_at is null")
        await conn.close()


def leave(number: int) -> None:
    """Its transaction has committed."""
    if chosen[0] == "after" and number >= chosen[1]:
        die()


@job("ledger.book")
async def book(input: dict[str, Any], ctx: JobContext) -> None:
    async with ctx.transaction() as conn:
        await conn.execute("insert into ledger values ($1, $2)", str(ctx.job_id), ctx.attempt)
        reach()
        await lose_lease()
    leave(count)


async def book_step(conn: Connection, run_id: str, name: str) -> None:
    await conn.execute("insert into ledger values ($1, 0)", f"{run_id} {name}")
    reach()
    await lose_lease()


@workflow("ledger.run")
async def books(run: Run, input: dict[str, Any]) -> None:
    for number in range(1, STEPS + 1):
        await run.transaction(f"step {number}", book_step, str(run.id), f"step {number}")
        leave(count)


async def work() -> None:
    """Drain, or die trying."""
    assert atlas.workers.workflows
    pool = await open_pool(sys.argv[1], size=8)
    options = WorkerOptions(
        ["ledger.book", "ENGINE_RUN"],
        concurrency=CONCURRENCY,
        poll=0.1,
        drain=True,
        application_url=sys.argv[2],
    )
    await Worker(pool, sys.argv[1], options, listen=False).run()
    await pool.close()


def choose(point: str, number: int) -> None:
    """Where this process dies."""
    global chosen
    chosen = (point, number)


if __name__ == "__main__":
    fork_workers(choose, work)
