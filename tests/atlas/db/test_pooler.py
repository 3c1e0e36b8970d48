"""Behind PgBouncer, in session and in transaction mode: the right role, no state in sessions, everything works."""

import asyncio

import pytest
import structlog

from atlas.api.db import Database
from atlas.audit.verification.verify import verify
from atlas.db.migrations import Migration, migrate
from atlas.db.notifications import Listener
from atlas.db.pool import IDLE_TRANSACTION, open_pool
from atlas.db.pooler import is_behind_pooler
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.scheduler.leader import Leader
from atlas.scheduler.tasks import TaskScheduler
from atlas.test_databases import TestDatabases
from atlas.workers.worker import Worker, WorkerOptions
from tests.pgbouncer import direct_url, needs_pgbouncer, pgbouncer
from tests.support import DANA, given_tenant, until

pytestmark = needs_pgbouncer

IDLE = "select current_setting('idle_in_transaction_session_timeout')"


@job("pooled.noop")
async def noop(input: dict[str, int]) -> None:
    """Nothing."""


@pytest.fixture(params=["transaction", "session"])
async def pooler_url(request, database_url, tmp_path):
    async with pgbouncer(database_url, tmp_path, mode=request.param) as url:
        yield url


@pytest.fixture
async def pooled(pooler_url):
    pool = await open_pool(pooler_url, size=6, lock_timeout="7s")
    yield pool
    await pool.close()


async def test_every_statement_and_transaction_has_its_settings(pooled):
    async def settings() -> None:
        query = "select current_user::text, current_setting('jit'), current_setting('lock_timeout')"
        async with pooled.acquire() as conn:
            assert is_behind_pooler(conn)
            assert tuple(await conn.fetchrow(query)) == ("atlas_engine", "off", "7s")
            async with conn.transaction(isolation="repeatable_read"):
                await asyncio.sleep(0.01)
                assert tuple(await conn.fetchrow(query)) == ("atlas_engine", "off", "7s")

    await asyncio.gather(*(settings() for _ in range(20)))


async def test_a_transaction_that_is_begun_by_a_statement_has_its_own_settings_too(pooled):
    """As the API begins those of its callers, under the row-level security of their tenant."""
    db = Database(pooled)
    query = "select current_user::text, current_setting('jit'), current_setting('lock_timeout')"
    async with db.connection() as conn:
        async with db.flat_transaction(conn, SYSTEM_TENANT, lock_timeout="3s"):
            assert tuple(await conn.fetchrow(query)) == ("atlas_tenant", "off", "3s")
            await conn.execute("savepoint here; rollback to here")
            assert tuple(await conn.fetchrow(query)) == ("atlas_tenant", "off", "3s")
        assert not conn.is_in_transaction()
        assert tuple(await conn.fetchrow(query)) == ("atlas_engine", "off", "7s")


async def test_a_process_that_freezes_within_a_statement_keeps_no_locks(pooled):
    async with pooled.acquire() as conn:
        assert await conn.fetchval(IDLE) == "2s"
        async with conn.transaction():
            assert await conn.fetchval(IDLE) == IDLE_TRANSACTION
        assert await conn.fetchval(IDLE) == "2s"


async def test_jobs_are_enqueued_claimed_and_verified(pooled, pooler_url):
    async with pooled.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
        tenant = await given_tenant(conn)
        await enqueue_many(conn, [NewJob("pooled.noop", {"n": n}, tenant) for n in range(300)], actor=DANA)
    worker = Worker(pooled, pooler_url, WorkerOptions(["pooled.noop"], poll=0.05))
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: pooled.fetchval("select count(*) = 300 from atlas.jobs where status = 'succeeded'"))
    finally:
        worker.stop()
        await running
    async with pooled.acquire() as conn:
        report = await verify(conn, [])
    assert report.unsealed >= 300
    assert {finding.kind for finding in report.findings} <= {"stale", "unsealed"}


@pytest.mark.long
async def test_one_scheduler_leads_and_another_follows_it(pooler_url):
    stops = [asyncio.Event(), asyncio.Event()]
    schedulers = [TaskScheduler() for _ in stops]
    leaders = [Leader(pooler_url, tasks) for tasks in schedulers]
    running = [asyncio.create_task(tasks.run(stop)) for tasks, stop in zip(schedulers, stops, strict=True)]
    try:
        await until(lambda: any(leader.leads for leader in leaders))
        for _ in range(20):
            assert sum(leader.leads for leader in leaders) == 1
            await asyncio.sleep(0.05)
        first = 0 if leaders[0].leads else 1
        stops[first].set()
        await running[first]
        await until(lambda: leaders[1 - first].leads, within=10)
    finally:
        for stop in stops:
            stop.set()
        await asyncio.gather(*running)


async def test_without_a_direct_address_programs_poll_and_say_so(pooler_url, database_url, monkeypatch, default_logs):
    monkeypatch.delenv("ATLAS_LISTEN_DATABASE_URL", raising=False)
    monkeypatch.setattr("atlas.db.notifications.log", structlog.get_logger("notifications"))
    listener = Listener(pooler_url, ("jobs",), lambda _channel, _payload: None)
    with structlog.testing.capture_logs() as lines:
        await listener._run()
    assert "set ATLAS_LISTEN_DATABASE_URL" in lines[0]["event"]

    monkeypatch.setenv("ATLAS_LISTEN_DATABASE_URL", direct_url(database_url))
    direct = Listener(pooler_url, ("jobs",), lambda _channel, _payload: None)
    direct.start()
    await until(lambda: direct.is_listening)
    await direct.stop()


@pytest.mark.long
async def test_a_database_is_migrated_through_it(databases: TestDatabases, tmp_path):
    async with databases.database(migrated=False) as empty, pgbouncer(empty, tmp_path, mode="transaction") as url:
        done = await asyncio.gather(migrate(url), migrate(url))
        assert sorted(map(bool, done)) == [False, True]


async def test_an_index_is_built_through_it_outside_of_a_transaction(databases: TestDatabases, tmp_path):
    steps = [
        Migration("1_first", "create table a (b int)"),
        Migration("2_index", "-- Outside of a transaction.\ncreate index concurrently a_b on a (b);"),
    ]
    async with databases.database(migrated=False) as empty, pgbouncer(empty, tmp_path, mode="transaction") as url:
        assert await migrate(url, steps) == ["1_first", "2_index"]
        assert await migrate(url, steps) == []
