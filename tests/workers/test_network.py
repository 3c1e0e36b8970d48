"""A bad network between a worker and Postgres: nothing is lost, and nothing runs twice without a record."""

import asyncio
import random
import time
from collections import Counter
from datetime import timedelta

import asyncpg
import pytest

from atlas.db import pool as pool_module
from atlas.db.pool import open_pool
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.claim import Claimant, TurnResult, claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.lease import heartbeat, held, register_worker
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.workers import worker as worker_module
from atlas.workers.worker import Worker, WorkerOptions
from tests.pgbouncer import without_pooler
from tests.proxy import FaultyProxy
from tests.support import DANA


@pytest.fixture
async def proxy(database_url):
    async with FaultyProxy(database_url) as proxy:
        yield proxy


@pytest.fixture
async def effects(owner) -> None:
    await owner.execute("create table effects (job_id uuid, attempt int); grant all on effects to public")


@pytest.mark.slow
async def test_closed_connections_and_lost_responses_lose_nothing(pool, proxy, given, effects, eventually):
    """The response to a commit is lost again and again: unknown claims are released, outcomes are recorded once."""
    jobs = await given("test.effect", *({"n": n} for n in range(600)))
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, proxy.url, WorkerOptions(["test.effect"], poll=0.1, lease=6, concurrency=20, batch=20))
    running = asyncio.create_task(worker.run())
    dice = random.Random(3)
    faults = 0
    while await pool.fetchval("select exists (select from atlas.jobs where status <> 'succeeded')"):
        await asyncio.sleep(0.1 + 0.2 * dice.random())
        if faults < 12:
            faults += 1
            if dice.random() < 0.5:
                proxy.cut()
            else:
                await proxy.swallow(0.05)
        assert faults < 200
    worker.stop()
    await asyncio.wait_for(running, 30)
    await through.close()

    marks = Counter(row["job_id"] for row in await pool.fetch("select job_id from effects"))
    expired = {
        row[0] for row in await pool.fetch("select entity_id from atlas.audit_log where action = 'LEASE_EXPIRED'")
    }
    retried = {
        row[0] for row in await pool.fetch("select entity_id from atlas.audit_log where action = 'JOB_RETRY_SCHEDULED'")
    }
    doubled = {str(job_id) for job_id, count in marks.items() if count > 1}
    print(
        f"network: {len(jobs)} jobs, {faults} faults, {len(doubled)} done twice, {len(expired)} rescued, {len(retried)} retried"
    )
    assert set(marks) == set(jobs)
    assert doubled <= expired | retried
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_SUCCEEDED'") == 600


@pytest.mark.long
async def test_a_dead_connection_is_noticed_and_the_worker_goes_on(pool, proxy, given, eventually):
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, proxy.url, WorkerOptions(["test.noop"], poll=0.1, lease=1.5))
    running = asyncio.create_task(worker.run())
    await given("test.noop")
    await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
    proxy.silent = True
    await given("test.noop")
    await asyncio.sleep(2.5)
    proxy.cut()
    proxy.silent = False
    await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=2)
    worker.stop()
    await asyncio.wait_for(running, 60)
    await through.close()


async def test_a_worker_that_gets_no_response_while_it_begins_ends_with_an_error(pool, proxy, monkeypatch):
    monkeypatch.setattr(worker_module, "TRANSACTION_SECONDS", 0.3)
    monkeypatch.setattr(pool_module, "RELEASE_SECONDS", 0.2)
    publish_types = worker_module.publish_types

    async def freeze(conn, job_types):
        proxy.silent = True
        await publish_types(conn, job_types)

    monkeypatch.setattr(worker_module, "publish_types", freeze)
    through = await open_pool(proxy.url, size=2)
    async with asyncio.timeout(30):
        with pytest.raises(TimeoutError):
            await Worker(through, proxy.url, WorkerOptions(["test.noop"])).run()
    through.terminate()


@pytest.mark.slow
async def test_a_worker_goes_on_over_new_connections_when_all_it_had_are_dead(pool, proxy, given, eventually):
    """As in a failover: the old connections neither respond nor are reset."""
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, proxy.url, WorkerOptions(["test.noop"], poll=0.1, lease=3, grace=0.2))
    running = asyncio.create_task(worker.run())
    await given("test.noop")
    await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
    # The heartbeat has its own connection, from its first beat on.
    registered = await pool.fetchval("select lease_expires_at from atlas.job_workers")
    await eventually("select lease_expires_at > $1 from atlas.job_workers", registered, equals=True)
    proxy.sink()
    await given("test.noop")
    await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=2, within=20)
    proxy.sink()
    worker.stop()
    await asyncio.wait_for(running, 40)
    await through.close()


@pytest.mark.slow
async def test_a_heartbeat_on_a_dead_connection_is_repeated_over_another_before_the_lease_is_over(
    pool, proxy, given, eventually, monkeypatch
):
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.4)
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, proxy.url, WorkerOptions(["test.sleeps"], poll=0.1, lease=4))
    running = asyncio.create_task(worker.run())
    [job_id] = await given("test.sleeps", {"seconds": 7.5})
    await eventually("select count(*) from atlas.job_workers", equals=1)
    # The heartbeat has its own connection, from its first beat on.
    registered = await pool.fetchval("select lease_expires_at from atlas.job_workers")
    await eventually("select lease_expires_at > $1 from atlas.job_workers", registered, equals=True)
    proxy.sink()
    await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded", within=30)
    worker.stop()
    await asyncio.wait_for(running, 20)
    await through.close()
    assert [attempt["status"] for attempt in await list_attempts(pool, job_id)] == ["succeeded"]


@pytest.mark.slow
async def test_an_outcome_is_recorded_when_only_the_connections_of_the_claim_loop_are_dead(
    database_url, pool, proxy, given, eventually
):
    """The heartbeat goes on over its own connection, so no other worker would take over the job."""
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, database_url, WorkerOptions(["test.sleeps"], poll=0.1, lease=2))
    running = asyncio.create_task(worker.run())
    [job_id] = await given("test.sleeps", {"seconds": 1})
    await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
    proxy.sink()
    await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded", within=20)
    worker.stop()
    await asyncio.wait_for(running, 20)
    await through.close()
    assert [attempt["status"] for attempt in await list_attempts(pool, job_id)] == ["succeeded"]


@pytest.mark.long
async def test_reconciling_without_a_response_is_repeated(given, serving, eventually, monkeypatch):
    looks = 0

    async def look(conn, worker_id):
        nonlocal looks
        looks += 1
        await asyncio.sleep(3600 if looks == 1 else 0)
        return await held(conn, worker_id)

    monkeypatch.setattr("atlas.workers.claims.reconcile.held", look)
    async with serving("test.noop", lease=1.5) as worker:
        await given("test.noop")
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
        worker._claim_loop.reconcile()
        await given("test.noop")
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=2)
    assert looks > 1


async def test_a_canceled_job_whose_claim_was_lost_on_the_way_is_canceled(pool, given, serving, eventually):
    async with serving("test.sleeps") as worker:
        await asyncio.sleep(0.3)
        [job_id] = await given("test.noop")
        async with pool.acquire() as conn:
            # As if the worker had claimed it, and the connection had broken before the response.
            assert await claim(conn, Claimant(worker.id, ["test.noop"]), limit=1)
            await cancel(conn, job_id, actor=DANA)
        worker._claim_loop.reconcile()
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled")
    events = await pool.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(job_id))
    assert [event["action"] for event in events][-1] == "JOB_CANCELED"
    assert [attempt["status"] for attempt in await list_attempts(pool, job_id)] == ["canceled"]


async def test_a_job_requeued_and_claimed_by_one_call_whose_response_was_lost_goes_back(
    given, serving, eventually, monkeypatch
):
    """Then the worker holds the attempt that has ended, and the database the next one, unknown to the worker."""
    swallowed: list[TurnResult] = []

    async def lose_response(conn, claimant, finishes=(), **asked):
        if not finishes or swallowed:
            return await finish_and_claim(conn, claimant, finishes, **asked)
        swallowed.append(await finish_and_claim(conn, claimant, finishes, **{**asked, "slots": 1}))
        raise ConnectionResetError

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", lose_response)
    async with serving("test.again_at_once"):
        [job_id] = await given("test.again_at_once")
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded")
    assert [(one.id, one.attempt) for turn in swallowed for one in turn.claimed] == [(job_id, 2)]


@pytest.mark.long
async def test_a_worker_on_a_dead_connection_stops_its_handlers_before_its_lease_is_over(
    pool, proxy, given, eventually
):
    through = await open_pool(proxy.url, size=8)
    worker = Worker(through, proxy.url, WorkerOptions(["test.sleeps"], poll=0.1, lease=9, grace=0.1))
    running = asyncio.create_task(worker.run())
    await given("test.sleeps")
    await eventually("select count(*) from atlas.jobs where status = 'running'", equals=1)
    proxy.silent = True
    async with asyncio.timeout(60):
        while worker._executor.running:
            await asyncio.sleep(0.01)
    stopped = time.monotonic()
    left = await pool.fetchval("select max(lease_expires_at) - clock_timestamp() from atlas.job_workers")
    # Without the time that asking took.
    left += timedelta(seconds=time.monotonic() - stopped)
    proxy.silent = False
    worker.stop()
    await asyncio.wait_for(running, 60)
    await through.close()
    assert left > timedelta(0)


@pytest.mark.long
async def test_a_worker_that_lost_its_lease_does_not_renew_it(pool, given, serving, eventually, monkeypatch):
    """Its last renewal was recorded, but the response was lost: the jobs it stopped must not stay its own."""
    away = False
    tried: list[str] = []

    async def renew(conn, worker_id, **facts):
        alive = await heartbeat(conn, worker_id, **facts)
        if away:
            raise ConnectionResetError
        return alive

    async def register(conn, worker_id, **facts):
        tried.append(worker_id)
        if away:
            raise ConnectionResetError
        await register_worker(conn, worker_id, **facts)

    monkeypatch.setattr("atlas.workers.worker_lease.heartbeat", renew)
    monkeypatch.setattr("atlas.workers.worker_lease.register_worker", register)
    async with serving("test.sleeps", concurrency=1, lease=1.5, grace=0.1) as worker:
        [job_id] = await given("test.sleeps", {"seconds": 60})
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        first = worker.id
        away = True
        async with asyncio.timeout(10):
            while len(tried) < 2:
                await asyncio.sleep(0.01)
        away = False
        await eventually("select lost_count from atlas.jobs where id = $1", job_id, equals=1)
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        assert worker.id not in (first, "")


@without_pooler("the commit is a message of its own, which is never sent here")
async def test_an_enqueue_whose_response_was_lost_is_repeated_with_its_key_and_makes_one_job(pool, proxy):
    through = await open_pool(proxy.url, size=2)
    for n in range(3):
        job = NewJob("test.noop", {"n": n}, dedupe_key=f"order-{n}")
        async with through.acquire() as conn:
            await enqueue(conn, NewJob("test.noop", {}, dedupe_key=f"warm-{n}"), actor=DANA)
            losing = asyncio.create_task(proxy.swallow(0.3))
            await asyncio.sleep(0)
            with pytest.raises((OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
                await enqueue(conn, job, actor=DANA)
            await losing
        async with through.acquire() as conn:
            again = await enqueue(conn, NewJob("test.noop", {"n": n}, dedupe_key=f"order-{n}"), actor=DANA)
        assert (again.id, again.deduplicated) == (job.id, True)
    await through.close()
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'") == 6
