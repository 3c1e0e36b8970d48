"""Workers killed and servers crashed around commits: one row in the application's ledger for each job and each step."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.errors import DatabaseNotReady, DatabaseUnreachable
from atlas.postgres.cluster import start_embedded
from tests.pgbouncer import needs_pgbouncer, pgbouncer
from tests.support import DANA, PROOF, crash_server
from tests.workers.killed_workers import bury, finish_all, victims
from tests.workers.ledger_victim import STEPS

SAMPLE = (40, 4)
JOBS, RUNS = (5_000, 500) if PROOF else SAMPLE
KILLS = 60 if PROOF else 3
WORDS = ("before", "during", "after")
CRASHES = 20 if PROOF else 2
MODULE = "tests.workers.ledger_victim"

pytestmark = pytest.mark.timeout(1800 if PROOF else 300)


async def given_ledger(pool: Any, owner: Any, jobs: int = JOBS, runs: int = RUNS) -> None:
    """The application's table, and all that is to be booked."""
    await owner.execute("create table ledger (entry text, attempt int); grant all on ledger to public")
    async with pool.acquire() as conn:
        await enqueue_many(conn, [NewJob("ledger.book", {}, allow_unknown=True) for _ in range(jobs)], actor=DANA)
        for _ in range(runs):
            await request_workflow(conn, SYSTEM_TENANT, "ledger.run", {}, DANA, allow_unknown=True)
        while (await take_intents(conn, "engine")).claimed:
            pass


async def check_ledger(pool: Any, kind: str, jobs: int = JOBS, runs: int = RUNS) -> None:
    entries = await pool.fetchrow("select count(*) as rows, count(distinct entry) as entries from ledger")
    unfinished = await pool.fetchval("select count(*) from atlas.jobs where status <> 'succeeded'")
    again = await pool.fetchval("select count(*) from atlas.jobs where attempt_count > 1")
    expected = jobs + runs * STEPS
    print(
        f"{kind}: {jobs:,} jobs and {runs:,} runs of {STEPS} steps, {again} taken up again:"
        f" {entries['rows']:,} rows, {expected - entries['entries']} lost, {entries['rows'] - entries['entries']} doubled"
    )
    assert unfinished == 0
    assert tuple(entries) == (expected, expected)
    ends = "select count(*) from atlas.audit_log where action in ('JOB_SUCCEEDED', 'WORKFLOW_COMPLETE')"
    assert await pool.fetchval(ends) == jobs + runs


async def kill_and_finish(pool: Any, url: str, application_url: str) -> int:
    """Kill a worker around a commit again and again, then let one finish. Returns how many died."""
    dice, killed = random.Random(7), 0
    async with victims(MODULE, url, application_url) as work:
        for number in range(KILLS):
            # Those of the quick sample meet jobs and runs alike.
            at = dice.randrange(1, 80) if PROOF else 5 + number
            code = await work(f"{WORDS[number % len(WORDS)]} {at}")
            killed += code == -9
            await bury(pool)
        await finish_all(pool, work)
    return killed


@pytest.mark.long
async def test_workers_killed_around_commits_write_each_row_once(pool, owner, database_url):
    await given_ledger(pool, owner)
    killed = await kill_and_finish(pool, database_url, database_url)
    await check_ledger(pool, f"{killed} kills around commits")
    assert killed == KILLS


@pytest.mark.long
async def test_a_drain_that_lost_its_lease_leaves_what_it_held_to_the_next(pool, owner, database_url):
    # Few, at full size too: while it drains many, the worker reaps what it has lost.
    await given_ledger(pool, owner, *SAMPLE)
    jobs, runs = SAMPLE
    async with victims(MODULE, database_url, database_url) as work:
        assert await work("lease 5") == 0
        assert await pool.fetchval("select exists (select from atlas.jobs where status = 'running')")
        assert await pool.fetchval("select count(distinct entry) from ledger") < jobs + runs * STEPS
        await bury(pool)
        await finish_all(pool, work)
    await check_ledger(pool, "a lease lost before a commit", *SAMPLE)


@pytest.mark.long
async def test_a_server_that_crashes_under_commits_keeps_each_row_once(tmp_path):
    server = await start_embedded(tmp_path)
    owner = await connect(server.url("postgres"))
    await owner.execute("create database ledger")
    await owner.close()
    url = server.url("ledger")
    await migrate(url)
    try:
        owner = await connect(url)
        async with pool_on(url) as pool, pool.acquire() as conn:
            await switch(conn, online=True, actor=DANA)
            await given_ledger(pool, owner)
        await owner.close()
        async with victims(MODULE, url, url) as work:
            for number in range(CRASHES):
                working = asyncio.create_task(work("never"))
                await until_booked(url, (number + 1) * JOBS // (CRASHES + 2), working)
                await crash_server(tmp_path, down=0.3)
                await working
                async with pool_on(url) as pool:
                    await bury(pool)
            async with pool_on(url) as pool:
                await finish_all(pool, work)
                await check_ledger(pool, f"{CRASHES} crashes of the server under commits")
    finally:
        server.release()


@asynccontextmanager
async def pool_on(url: str) -> AsyncIterator[Any]:
    """A pool on a server that may be recovering from a crash."""
    opened: Any = None
    async with asyncio.timeout(60):
        while opened is None:
            with suppress(DatabaseNotReady, DatabaseUnreachable):
                opened = await open_pool(url, size=4)
            await asyncio.sleep(0.05)
    try:
        yield opened
    finally:
        await opened.close()


async def until_booked(url: str, rows: int, working: "asyncio.Task[int]") -> None:
    """Wait until the ledger has so many rows, or the worker has ended."""
    conn = await connect(url)
    try:
        while not working.done() and await conn.fetchval("select count(*) from ledger") < rows:
            await asyncio.sleep(0.005)
    finally:
        await conn.close()


@pytest.mark.long
@needs_pgbouncer
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_the_same_behind_pgbouncer(pool, owner, database_url, tmp_path, mode):
    await given_ledger(pool, owner)
    async with pgbouncer(database_url, tmp_path, mode=mode) as url:
        killed = await kill_and_finish(pool, url, url)
    await check_ledger(pool, f"{killed} kills around commits, PgBouncer in {mode} mode")
