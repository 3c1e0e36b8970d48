"""While a snapshot is held, what claims count for limits is kept: they read no entries of jobs that have finished, and hold every limit to the letter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import orjson
import pytest

from atlas.db.statements import fetch
from atlas.engine.hosts.leased_jobs import CLAIM as CLAIM_LEASED
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim, claim_for_slots
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from tests.engine.jobs.given import given_worker, success
from tests.support import DANA

T = TypeVar("T")
FINISHED = 1_500
MAX_READ = 600
READ = """
select sum(pg_stat_get_xact_tuples_returned(c.oid))::int from pg_class c
where c.relname = any ($1) and c.relnamespace = 'atlas'::regnamespace
"""
LIMIT_INDEXES = [
    "jobs_running",
    "jobs_held",
    "jobs_released",
    "jobs_rate_released",
    "limit_events_pkey",
    "job_limits_pkey",
    "job_limits_newest",
    "counted_jobs_pkey",
]


@asynccontextmanager
async def held_snapshot(owner: Any) -> AsyncIterator[None]:
    async with owner.transaction(isolation="repeatable_read"):
        await owner.fetch("select count(*) from atlas.jobs")
        yield


async def entries_read(conn: Any, call: Callable[[], Awaitable[T]]) -> tuple[T, int]:
    """What a call returns, and how many entries it reads of the indexes that are counted along for limits."""
    async with conn.transaction():
        before = await conn.fetchval(READ, LIMIT_INDEXES)
        result = await call()
        return result, await conn.fetchval(READ, LIMIT_INDEXES) - before


async def run_all(conn: Any, jobs: list[NewJob]) -> None:
    """Jobs of an unlimited type that have run and finished."""
    await enqueue_many(conn, jobs, actor=DANA)
    worker = await given_worker(conn, jobs[0].job_type)
    await finish_all(conn, worker, await claim(conn, worker, limit=len(jobs)))


async def finish_all(conn: Any, worker: Claimant, jobs: list[ClaimedJob]) -> None:
    await finish(conn, worker, [success(worker, job) for job in jobs])


async def claim_some(conn: Any, worker: Claimant, *, resume: str | None = None) -> list[ClaimedJob]:
    """What claims bring until there is nothing more."""
    found: list[ClaimedJob] = []
    while True:
        turn = await claim_for_slots(conn, worker, slots=50, resume=resume)
        found += turn.claimed
        if not (turn.claimed or turn.again):
            return found


@pytest.mark.parametrize("limit", ["type", "tenant"])
async def test_a_claim_under_a_limit_reads_no_entries_of_finished_jobs_and_starts_no_job_too_many(conn, owner, limit):
    if limit == "type":
        await conn.execute("insert into atlas.job_types (key, concurrency) values ('mine', 5)")
    else:
        await conn.execute("""update atlas.tenants set limits = '{"in_flight": 5}'""")
    mine = await given_worker(conn, "mine")
    async with held_snapshot(owner):
        if limit == "type":
            await run_all(conn, [NewJob("other") for _ in range(FINISHED)])
        else:
            await owner_fills(conn)
        await enqueue_many(conn, [NewJob("mine") for _ in range(20)], actor=DANA)
        running = await claim_some(conn, mine)
        assert len(running) == 5
        for _ in range(3):
            again, read = await entries_read(conn, lambda: claim_some(conn, mine))
            assert (again, read < MAX_READ) == ([], True), read
            await finish_all(conn, mine, running[:2])
            running = running[2:]
            new, read = await entries_read(conn, lambda: claim_some(conn, mine))
            assert (len(new), read < MAX_READ) == (2, True), read
            running += new
        leased = {"claimant": "remote", "host_id": None, "tenant_id": SYSTEM_TENANT, "job_types": ["mine"], "limit": 5}
        assert await fetch(conn, CLAIM_LEASED, **leased, lease=60.0) == []
        await finish_all(conn, mine, running[:1])
        [_] = await fetch(conn, CLAIM_LEASED, **leased, lease=60.0)
        assert await claim_some(conn, mine) == []


async def owner_fills(conn: Any) -> None:
    """Jobs of the tenant that ran before, one row after another."""
    await conn.execute(
        """insert into atlas.jobs (id, tenant_id, job_type, status, claimed_by, attempt_count, started_at)
        select atlas.new_id(), $1, 'other', 'running', 'before', 1, now() from generate_series(1, $2::int)""",
        SYSTEM_TENANT,
        FINISHED,
    )
    await conn.execute("update atlas.jobs set status = 'succeeded', finished_at = now() where status = 'running'")


@pytest.mark.long
@pytest.mark.parametrize(
    "terms", [{"concurrency": 3, "concurrency_key": "{{ input.key }}"}, {"rate": "400/second", "burst": 40}]
)
async def test_the_release_of_a_limit_under_which_very_many_jobs_ran_reads_no_entries_of_them(conn, owner, terms):
    await conn.execute(
        "insert into atlas.job_types (key, concurrency, concurrency_key, rate, burst) values ('mine', $1, $2, $3, $4)",
        *(terms.get(name) for name in ("concurrency", "concurrency_key", "rate", "burst")),
    )
    burst = terms.get("burst")
    worker = await given_worker(conn, "mine")
    async with held_snapshot(owner):
        await conn.execute("update atlas.job_types set concurrency = 10000 where concurrency is not null")
        await conn.execute("update atlas.job_types set burst = 10000 where burst is not null")
        await enqueue_many(conn, [NewJob("mine", {"key": "a"}) for _ in range(FINISHED)], actor=DANA)
        ran = 0
        while ran < FINISHED:
            jobs = (await claim_for_slots(conn, worker, slots=2000)).claimed
            ran += len(jobs)
            await finish_all(conn, worker, jobs)
        since = await conn.fetchval("select extract(epoch from clock_timestamp())::float8")
        await conn.execute("update atlas.job_types set concurrency = $1, burst = $2", terms.get("concurrency"), burst)
        resume = orjson.dumps({"places": [], "careful": [], "due_since": since}).decode()
        most = terms.get("concurrency") or burst
        reads = []
        for number in range(4):
            jobs = [NewJob("mine", {"key": "a"}, priority=n % 3) for n in range(3 * most)]
            await enqueue_many(conn, jobs, actor=DANA)
            ran = 0
            while ran < len(jobs):
                # A rate has a burst again.
                await asyncio.sleep(0.1 if burst is not None else 0)
                running, read = await entries_read(conn, partial(claim_some, conn, worker, resume=resume))
                if number:  # The first claims find that reading takes long.
                    reads.append(read - 10 * len(running))
                # Of a rate the more start the longer the claims take.
                assert burst is not None or len(running) == most
                assert len({job.id for job in running}) == len(running)
                ran += len(running)
                await finish_all(conn, worker, running)
            assert await claim_some(conn, worker, resume=resume) == []
        # Events are read again while a transaction of another test writes that began before them.
        assert min(reads) < MAX_READ, reads
        assert await conn.fetchval("select count(*) from atlas.counted_jobs") == 1
