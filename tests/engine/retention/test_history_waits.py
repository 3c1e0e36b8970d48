"""What workers and callers do waits neither for a move into history nor for the drop of a day."""

import asyncio
from typing import Any

import pytest

from atlas.db.pool import connect
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish_and_claim
from atlas.engine.jobs.lease import heartbeat
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.verdicts import decide
from atlas.engine.metering.usage import meter_usage
from atlas.engine.retention import history
from tests.engine.jobs.given import given_job, given_worker, success
from tests.engine.retention.test_history import (
    MOVED,
    PLACES,
    drop_all,
    file_all,
    given_failure,
    given_run,
    given_success,
    places,
)
from tests.engine.retention.test_history import online as online
from tests.engine.retention.test_retention import age, old
from tests.support import DANA, given_tenant

DROP = "select atlas.drop_history_part($1, '{}')"
# Tries to drop a table that wait for its readers. For a moment after a wait begins it has no start.
WAITS = "select waitstart from pg_locks where mode = 'AccessExclusiveLock' and not granted and waitstart is not null"
CANCELED = "select id from only atlas.jobs where status = 'canceled'"


async def work(conn: Any, worker: Claimant) -> None:
    """Jobs are enqueued, claimed, finished and canceled, and the scheduler sweeps. None of it waits."""
    await enqueue_many(conn, [NewJob("plain", {}, allow_unknown=True) for _ in range(3)], actor=DANA)
    assert await cancel(conn, await given_job(conn, "plain"), actor=DANA) == "canceled"
    [first] = await claim(conn, worker, limit=1)
    failed = decide(first, worker.id, ValueError("once"), policy_of(None))
    [second] = (await finish_and_claim(conn, worker, [failed], slots=1)).claimed
    assert await heartbeat(conn, worker.id, lease=60, running=1) is not None
    await finish_and_claim(conn, worker, [success(worker, second)])
    await sweep(conn)
    await meter_usage(conn)


@pytest.fixture
async def worker(conn) -> Claimant:
    return await given_worker(conn, "plain")


async def test_work_waits_for_no_drop(conn, pool, database_url, worker):
    tenant = await given_tenant(conn)
    await given_failure(conn, tenant_id=tenant)
    await given_run(conn, tenant_id=tenant)
    await age(conn)
    assert await file_all(pool) == 2
    [part] = set((await places(conn)).values())
    dropping = await connect(database_url)
    try:
        await dropping.execute("begin")
        assert await dropping.fetchval(DROP, part) == 2
        async with asyncio.timeout(30):
            await work(conn, worker)
            await retry_now(conn, await conn.fetchval(CANCELED), actor=DANA)
        await dropping.execute("commit")
    finally:
        await dropping.close()
    assert part not in (await places(conn)).values()


async def test_work_and_lists_wait_for_no_move(conn, pool, database_url, worker):
    tenant = await given_tenant(conn)
    await given_failure(conn, tenant_id=tenant)
    await given_run(conn, tenant_id=tenant)
    await age(conn, days=1)
    assert await file_all(pool) == 2
    moved = [await given_success(conn, tenant, id=old()), await given_failure(conn, tenant_id=tenant)]
    await age(conn, days=0)
    moving = await connect(database_url)
    try:
        await moving.execute("begin")
        assert await moving.fetchval(MOVED, tenant) == 2
        async with asyncio.timeout(30):
            await work(conn, worker)
            listed = await list_jobs(conn, JobFilter(tenant_id=tenant), limit=9)
        await moving.execute("commit")
    finally:
        await moving.close()
    assert {*moved} < {job.id for job in listed}
    assert "jobs" not in {place for id, place in (await places(conn)).items() if id in moved}


@pytest.mark.long
async def test_a_drop_that_waits_for_a_reader_lets_others_read_in_between(conn, pool, monkeypatch):
    await given_success(conn, id=old())
    await age(conn)
    assert await file_all(pool) == 1
    monkeypatch.setattr(history, "MAX_TRIES", 1_000_000)
    tries = set()
    async with pool.acquire() as reader, reader.transaction():
        assert len(await reader.fetch(PLACES)) == 1
        drop = asyncio.create_task(drop_all(pool))
        while len(tries) < 3:
            assert not drop.done()
            tries |= {row["waitstart"] for row in await conn.fetch(WAITS)}
        assert len(await conn.fetch(PLACES)) == 1
        await work(conn, await given_worker(conn, "plain"))
    assert await drop == [1]


async def test_a_drop_gives_up_while_a_table_is_read_and_is_repeated(conn, pool, monkeypatch):
    await given_success(conn, id=old())
    await age(conn)
    assert await file_all(pool) == 1
    monkeypatch.setattr(history, "MAX_TRIES", 2)
    async with pool.acquire() as reader, reader.transaction():
        await reader.fetch(PLACES)
        assert await drop_all(pool) == []
    assert await drop_all(pool) == [1]
