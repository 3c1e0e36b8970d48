"""Faults on real processes: killed, frozen, stopped; a database that goes away. Nothing is lost, nothing doubled unseen."""

import asyncio
import random
import signal
from collections import Counter
from typing import Any

import pytest

from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.postgres.cluster import start_embedded
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA, PROOF, crash_server
from tests.workers.processes import start_worker, workers

JOBS, WORKERS, KILLS = (20_000, 6, 40) if PROOF else (900, 2, 3)


@pytest.fixture
async def effects(owner) -> None:
    """Where handlers record that they ran."""
    await owner.execute("create table effects (job_id uuid, attempt int); grant all on effects to public")


@pytest.mark.long
async def test_workers_killed_at_random_lose_no_job_and_double_none_unseen(
    pool, database_url, given, effects, eventually
):
    await given("test.effect", *({"n": n} for n in range(JOBS)))
    dice = random.Random(7)
    killed = 0
    async with workers(database_url, WORKERS) as running:
        await eventually("select count(*) > 0 from atlas.jobs where status = 'succeeded'", equals=True)
        while killed < KILLS and await pool.fetchval(
            "select exists (select from atlas.jobs where status <> 'succeeded')"
        ):
            await asyncio.sleep(0.4 * dice.random())
            victim = dice.randrange(WORKERS)
            running[victim].kill()
            await running[victim].wait()
            running[victim] = await start_worker(database_url)
            killed += 1
        await eventually("select count(*) from atlas.jobs where status <> 'succeeded'", equals=0, within=120)

    marks = Counter(row["job_id"] for row in await pool.fetch("select job_id from effects"))
    doubled = {job_id for job_id, count in marks.items() if count > 1}
    expired = {
        row[0] for row in await pool.fetch("select entity_id from atlas.audit_log where action = 'LEASE_EXPIRED'")
    }
    lost = await pool.fetchval("select count(*) from atlas.jobs where status <> 'succeeded'")
    print(
        f"kill -9: {JOBS} jobs, {killed} kills, {len(expired)} rescued, {len(doubled)} done twice, {lost} lost,"
        f" {len({str(one) for one in doubled} - expired)} doubled without a lease expiry"
    )
    assert len(marks) == JOBS
    assert {str(one) for one in doubled} <= expired
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_SUCCEEDED'") == JOBS


@pytest.mark.slow
async def test_a_frozen_worker_is_replaced_and_its_late_finish_refused(pool, database_url, given, effects, eventually):
    [job_id] = await given("test.effect", {"seconds": 2})
    async with workers(database_url, 1) as [frozen]:
        await eventually("select count(*) from effects", equals=1)
        frozen.send_signal(signal.SIGSTOP)
        async with workers(database_url, 1):
            await eventually("select lost_count from atlas.jobs where id = $1", job_id, equals=1)
            await eventually("select count(*) from effects", equals=2)
            frozen.send_signal(signal.SIGCONT)
            await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded")
            await asyncio.sleep(0.5)
    events = await pool.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(job_id))
    assert [row["action"] for row in events] == ["JOB_CREATED", "LEASE_EXPIRED", "JOB_SUCCEEDED"]
    assert await pool.fetchval("select max(attempt) from effects") == 2


@pytest.mark.long
async def test_a_stopped_worker_leaves_nothing_running_and_counts_nothing(
    pool, database_url, given, effects, eventually
):
    await given("test.effect", *({"seconds": 30} for _ in range(5)), *({"seconds": 0} for _ in range(5)))
    async with workers(database_url, 1, lease=30) as [one]:
        await eventually("select count(*) from effects", equals=10)
        one.terminate()
        assert await asyncio.wait_for(one.wait(), 15) == 0
    counts = await pool.fetch(
        "select status::text, count(*), sum(retry_count), sum(lost_count) from atlas.jobs group by 1 order by 1"
    )
    assert [tuple(row) for row in counts] == [("queued", 5, 0, 0), ("succeeded", 5, 0, 0)]


@pytest.mark.parametrize("job_type", ["test.unstoppable", "test.refuses"])
@pytest.mark.slow
async def test_a_stopped_worker_whose_handler_goes_on_gives_its_job_back_and_ends_with_it(
    pool, database_url, given, eventually, job_type
):
    [job_id] = await given(job_type, {"seconds": 40})
    status = "select status::text from atlas.jobs where id = $1"
    async with workers(database_url, 1, lease=30, types=job_type) as [one]:
        await eventually(status, job_id, equals="running")
        one.terminate()
        # Two seconds of grace: before the process ends, no other worker may begin what its handler still runs.
        await asyncio.sleep(4)
        assert await pool.fetchval(status, job_id) == "running"
        assert await asyncio.wait_for(one.wait(), 15) == 0
    found = await pool.fetchrow("select status::text, retry_count, lost_count from atlas.jobs where id = $1", job_id)
    assert tuple(found) == ("queued", 0, 0)


@pytest.mark.long
async def test_a_stopped_worker_does_not_wait_for_a_thread_that_outlasted_its_attempt(
    pool, database_url, given, eventually
):
    [job_id] = await given("test.lingers", {"seconds": 40}, max_retries=0)
    async with workers(database_url, 1, lease=30, types="test.lingers") as [one]:
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="failed")
        one.terminate()
        assert await asyncio.wait_for(one.wait(), 15) == 0
    assert await pool.fetchval("select count(*) from atlas.job_workers where dead_at is null") == 0


@pytest.mark.slow
async def test_a_job_that_kills_its_worker_three_times_is_poison_and_spares_the_rest(
    pool, database_url, given, effects, eventually
):
    [poison] = await given("test.kills", max_retries=50)
    others = await given("test.effect", *({} for _ in range(50)))
    started = 0
    for _ in range(8):
        async with workers(database_url, 1, types="test.kills,test.effect") as [one]:
            started += 1
            ending = asyncio.create_task(one.wait())
            done = asyncio.create_task(
                eventually("select status::text from atlas.jobs where id = $1", poison, equals="failed")
            )
            await asyncio.wait([ending, done], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            done.cancel()
            await asyncio.gather(ending, done, return_exceptions=True)
            if await pool.fetchval("select status = 'failed' from atlas.jobs where id = $1", poison):
                await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=50)
                break
    row = await pool.fetchrow(
        "select status::text, lost_count, error->>'type' as type from atlas.jobs where id = $1", poison
    )
    assert tuple(row) == ("failed", 3, "Poison")
    assert started == 4
    assert (
        await pool.fetchval("select count(*) from atlas.jobs where id = any($1) and status = 'succeeded'", others) == 50
    )
    # Bystanders were lost with it at most once: a lost job is not prefetched beside it again.
    assert await pool.fetchval("select max(lost_count) from atlas.jobs where id = any($1)", others) <= 2


BEGUN: list[int] = []
AT_WORK: list[int] = []


@job("fault.long")
async def long(input: dict[str, Any], ctx: JobContext) -> int:
    """Records how many of its jobs run at the same time."""
    BEGUN.append(ctx.attempt)
    AT_WORK.append(ctx.attempt)
    try:
        await asyncio.sleep(4)
        return len(AT_WORK)
    finally:
        AT_WORK.remove(ctx.attempt)


@pytest.mark.slow
async def test_a_claim_that_has_returned_survives_a_crash_of_the_server(tmp_path):
    """The handler has begun, so its claim is on disk, and the worker goes on with it after the crash."""
    server = await start_embedded(tmp_path, settings={"wal_writer_delay": "10s"})
    conn = await connect(server.url("postgres"))
    await conn.execute("create database crash")
    await conn.close()
    url = server.url("crash")
    await migrate(url)
    pool = await open_pool(url, size=8)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
    worker = Worker(pool, url, WorkerOptions(["fault.long"], concurrency=3, poll=0.2, lease=30, grace=0.2))
    task = asyncio.create_task(worker.run())
    try:
        await asyncio.sleep(1)
        async with pool.acquire() as conn:
            job_id = (await enqueue(conn, NewJob("fault.long", {}), actor=DANA)).id
        async with asyncio.timeout(10):
            while not BEGUN:
                await asyncio.sleep(0.001)
        await crash_server(tmp_path)
        async with asyncio.timeout(20):
            while worker.finished < 1:
                await asyncio.sleep(0.05)
        events = await pool.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(job_id))
        output = await pool.fetchval("select output::text from atlas.jobs where id = $1", job_id)
    finally:
        worker.stop()
        await task
        await pool.close()
        server.release()
    assert BEGUN == [1]
    assert [row["action"] for row in events] == ["JOB_CREATED", "JOB_SUCCEEDED"]
    assert output == "1"


async def test_a_claim_that_a_failover_undid_is_recorded_also_after_its_lease(pool, serving, given, eventually, online):
    """The server that took over has not seen the claim, another worker has done the job, and the lease is over."""
    await given("test.sleeps", {"seconds": 60})
    async with serving("test.sleeps", lease=2) as worker:
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=1)
        first = worker.id
        await pool.execute(
            "update atlas.jobs set status = 'succeeded', claimed_by = 'host:1:other', finished_at = clock_timestamp()"
        )
        await pool.execute(
            "update atlas.job_workers set lease_expires_at = clock_timestamp() where worker_id = $1", first
        )
        query = "select count(*) from atlas.audit_log where action = 'LEASE_EXPIRED' and actor_id = $1"
        await eventually(query, first, equals=1)
        assert worker.id != first
