"""Worker processes that kill themselves at a point, and what passes by itself after each death."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from atlas.logs import configure_logs
from tests.support import ROOT, until

MAX_DRAINS = 20
# Jobs that wait for a person have a date of their own: nothing but an answer wakes them.
UNFINISHED = """
select exists (select from atlas.jobs where status = 'running'
               or (status = 'queued' and next_retry_at is distinct from '9999-12-31 00:00:00+00'))"""

# Lets a worker run until it dies at a point, or is done. Returns its exit code.
Work: TypeAlias = Callable[[str], Awaitable[int]]


@asynccontextmanager
async def victims(module: str, *arguments: str) -> AsyncIterator[Work]:
    """A program that forks a worker for every point it is given."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def work(point: str) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{point}\n".encode())
        async with asyncio.timeout(300):
            return int(await process.stdout.readline())

    try:
        yield work
    finally:
        process.kill()
        await process.wait()


def fork_workers(choose: Callable[[str, int], None], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """That program: fork a worker for each point on stdin, and print its exit code."""
    configure_logs("error")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            point, _, number = line.strip().partition(" ")
            choose(point, int(number or 0))
            asyncio.run(work())
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


async def bury(pool: Any) -> None:
    """What passes by itself after a lease: the dead worker's jobs go back to the queue. Their losses are long ago."""
    await pool.execute(
        "update atlas.job_workers set lease_expires_at = now() - interval '1 minute' where dead_at is null"
    )

    async def is_taken_back() -> bool:
        # A session of the dead worker may still hold its lock for a moment: the reaper passes over it then.
        await pool.fetch("select * from atlas.reap_leases(10000)")
        return not await pool.fetchval("select exists (select from atlas.jobs where status = 'running')")

    await until(is_taken_back)
    await pool.execute(
        "update atlas.jobs set next_retry_at = null, lost_count = 0, careful = false"
        " where status = 'queued' and next_retry_at is distinct from '9999-12-31 00:00:00+00'"
    )


async def finish_all(pool: Any, work: Work) -> int:
    """Let workers drain until every job is finished, or waits for a person. Returns how many that took.

    A drain ends when nothing is due. What a worker held when it lost its lease is not due yet then, and neither is a
    job whose attempt failed and waits for its retry: the next worker finds both.
    """
    for number in range(1, MAX_DRAINS + 1):
        assert await work("never") == 0
        if not await pool.fetchval(UNFINISHED):
            return number
        await bury(pool)
    left = await pool.fetch(
        "select job_type, status::text, attempt_count, next_retry_at, error from atlas.jobs where status <> 'succeeded'"
    )
    raise AssertionError(f"jobs are unfinished after {MAX_DRAINS} drains: {[dict(row) for row in left[:5]]}")
