"""When taking Atlas offline has returned, no handler starts, in whatever state a worker is.

Starts are marked in files, with the clock that all processes of a machine share. Workers prefetch under load, and are
killed and frozen; a worker that is thawed while Atlas is offline must not start what it holds. A start is the time at
which the worker has read its clock: one that is frozen right after it begins with the handler when it is thawed.
"""

import asyncio
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.start_right import LAPSE_SECONDS, boot_seconds
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from tests.support import DANA, PROOF, until
from tests.workers.processes import Faults, workers

TOGGLES, WORKERS = (80, 3) if PROOF else (2, 2)
TYPES = ("test.marks", "test.marks_in_thread")
OPTIONS = {"lease": 3, "types": ",".join(TYPES), "concurrency": 20, "app": "tests.workers.marking"}
# What the switch may take beside the time after which every right has lapsed, on a busy machine.
SLACK_SECONDS = 10


class Mark(NamedTuple):
    """When a worker read its clock before a start, and when the handler began."""

    started_at: float
    began_at: float


def marks(folder: Path) -> list[Mark]:
    """The marks of all handlers that began."""
    lines = [line.split() for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [Mark(float(started), float(began)) for started, began in lines]


def late(times: Iterable[float], closed: list[tuple[float, float]]) -> list[float]:
    """How long after a call had returned these were, of those that were before the next one."""
    return [at - returned for at in times for returned, ended in closed if returned < at < ended]


async def _take_offline(conn):
    gate = await switch(conn, online=False, actor=DANA)
    return await wait_until_closed(conn, gate)


async def feed(pool, folder, types=TYPES):
    """Keep some jobs of these types queued."""
    queued = (
        "select count(*) from (select from atlas.jobs where status = 'queued' and job_type = any ($1) limit 2000) q"
    )
    async with pool.acquire() as conn:
        while True:
            if await conn.fetchval(queued, list(types)) < 1000:
                jobs = [NewJob(one, {"folder": str(folder)}) for one in types * 500]
                await enqueue_many(conn, jobs, actor=DANA)
            await asyncio.sleep(0.02)


async def _wait_for_marks(folder):
    before = len(marks(folder))
    await until(lambda: len(marks(folder)) > before + 20, within=60)


@pytest.mark.long
async def test_no_handler_starts_after_offline_has_returned(pool, database_url, tmp_path):
    closed, confirmed, lapsed, longest = [], 0, 0, 0.0
    feeder = asyncio.create_task(feed(pool, tmp_path))
    async with (
        workers(database_url, WORKERS, **OPTIONS) as running,
        pool.acquire() as conn,
    ):
        faults = Faults(running, database_url, seed=5, **OPTIONS)
        await faults.wait_for_all(pool)
        for number in range(TOGGLES):
            await _wait_for_marks(tmp_path)
            await faults.strike(number)
            asked_at = time.monotonic()
            gate = await _take_offline(conn)
            returned_at = boot_seconds()
            longest = max(longest, time.monotonic() - asked_at)
            confirmed, lapsed = confirmed + gate.confirmed, lapsed + gate.workers - gate.confirmed
            await faults.thaw()
            closed.append((returned_at, boot_seconds()))
            await switch(conn, online=True, actor=DANA)
            await faults.replace()
        feeder.cancel()
    starts = marks(tmp_path)
    too_late = late((mark.started_at for mark in starts), closed)
    frozen = len(late((mark.began_at for mark in starts), closed))
    released = await pool.fetchval("select count(*) from atlas.job_attempts where outcome = 'released'")
    print(
        f"gate: {TOGGLES} toggles, {len(starts)} starts, {released} prefetched jobs given back, {confirmed} confirmations,"
        f" {lapsed} rights lapsed, the switch took at most {longest:.2f} s, {len(too_late)} starts after it had returned,"
        f" {frozen} handlers began after it that had started before"
    )
    assert too_late == []
    assert confirmed > 0
    assert lapsed > 0
    assert longest < LAPSE_SECONDS + SLACK_SECONDS


async def test_a_worker_confirms_and_has_given_back_what_it_prefetched(pool, serving, given, eventually):
    await given("test.sleeps", *({"seconds": 30} for _ in range(3)))
    async with serving("test.sleeps", concurrency=3, grace=0) as worker:
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=3)
        async with pool.acquire() as conn:
            [prefetched] = await given("test.sleeps", {"seconds": 30})
            # As a fast worker would: it holds one job more than it has slots.
            worker._demand.prefetch._rate = 20.0
            worker._claim_loop.hint()
            await eventually("select status::text from atlas.jobs where id = $1", prefetched, equals="running")
            gate = await _take_offline(conn)
            assert (gate.confirmed, gate.workers) == (1, 1)
            row = await conn.fetchrow(
                "select status::text, retry_count, lost_count from atlas.jobs where id = $1", prefetched
            )
            assert tuple(row) == ("queued", 0, 0)
            assert await conn.fetchval("select count(*) from atlas.jobs where status = 'running'") == 3
            events = "select count(*) from atlas.audit_log where entity_id = $1"
            assert await conn.fetchval(events, str(prefetched)) == 1


@job("gate.blocks")
async def blocks_the_loop(input: dict[str, float]) -> None:
    """Computes for so long that the right to start lapses, twice."""
    threading.Event().wait(input["seconds"])


async def test_a_right_that_lapsed_is_asked_for_again_and_the_jobs_run(pool, drain, given):
    """Three handlers block the event loop one after the other; the others wait for their turn longer than the right lasts."""
    await given("gate.blocks", *({"seconds": 0.8} for _ in range(3)))
    worker = await drain("gate.blocks", concurrency=3)
    assert worker.outcomes == {"succeeded": 3}
    assert await pool.fetchval("select max(attempt_count) from atlas.jobs") == 1


@pytest.mark.long
async def test_a_worker_without_notifications_is_waited_for_until_its_right_has_lapsed(conn):
    """It never confirms: the switch returns all the same, and says so."""
    worker = "host:1:silent"
    await conn.execute(
        "insert into atlas.job_workers (worker_id, hostname, version, job_types, lease_expires_at)"
        " values ($1, 'host', '1', '{}', clock_timestamp() + interval '1 minute')",
        worker,
    )
    began = time.monotonic()
    gate = await _take_offline(conn)
    assert (gate.confirmed, gate.workers) == (0, 1)
    assert time.monotonic() - began >= LAPSE_SECONDS
    await conn.execute("update atlas.job_workers set dead_at = clock_timestamp()")
    gate = await _take_offline(conn)
    assert (gate.confirmed, gate.workers) == (0, 0)
