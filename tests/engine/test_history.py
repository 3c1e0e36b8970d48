"""History: jobs that simply succeeded move into tables of their own, are read as before, and are dropped by the day."""

import asyncio
from uuid import UUID

import asyncpg
import pytest

from atlas.audit.crosscheck import cross_check
from atlas.db.pool import connect
from atlas.engine.history import drop_expired, file_jobs
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.counts import count_jobs
from atlas.engine.jobs.delete import delete
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.find import get_job, list_attempts
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.gate import switch
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.retention import read_ages
from atlas.engine.usage import meter_usage
from atlas.errors import AtlasError
from tests.engine.jobs.given import given_claimed, given_job, success
from tests.engine.test_retention import age, keep, old, sweep
from tests.support import DANA, given_tenant

PLACES = "select tableoid::regclass::text as place, id from atlas.jobs order by 1, 2"
MOVED = """
select moved from atlas.move_to_history($1, '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 9, 30)"""
PRUNED = """
select tenant_id, meta->'jobs' as jobs, meta->'by_status' as by_status, meta->>'first' as first, meta->>'last' as last
from atlas.audit_log where action = 'JOBS_PRUNED' order by tenant_id"""


@pytest.fixture(autouse=True)
async def online(conn) -> None:
    await switch(conn, online=True, actor=DANA)


async def given_success(conn, tenant: UUID | None = None, **options) -> UUID:
    chosen = options if tenant is None else options | {"tenant_id": tenant}
    worker, job = await given_claimed(conn, "plain", **chosen)
    await finish(conn, worker, [success(worker, job)])
    return job.id


async def file_all(pool) -> int:
    return sum([moved for ages in await read_ages(pool) async for moved in file_jobs(pool, ages)])


async def drop_all(pool) -> list[int]:
    return [dropped async for dropped in drop_expired(pool, await read_ages(pool))]


async def places(conn) -> dict[UUID, str]:
    rows = await conn.fetch(PLACES)
    assert len({row["id"] for row in rows}) == len(rows), "a job is in two places"
    return {row["id"]: row["place"].removeprefix("atlas.") for row in rows}


async def test_a_job_that_simply_succeeded_moves_and_is_read_as_before(conn, pool):
    job_id = await given_success(conn, id=old())
    assert await file_all(pool) == 0, "it is not metered yet"
    await age(conn, days=0)
    before, attempts = await get_job(conn, job_id), await list_attempts(conn, job_id)

    assert await file_all(pool) == 1
    [place] = (await places(conn)).values()
    assert place.startswith("jobs_history_30_")
    after = await get_job(conn, job_id)
    assert after == before
    assert await list_attempts(conn, job_id) == attempts
    assert await file_all(pool) == 0
    assert await cross_check(conn) == []
    await delete(conn, job_id, actor=DANA)
    assert await places(conn) == {}


async def test_what_may_still_change_or_has_rows_elsewhere_stays(conn, pool):
    worker, failed = await given_claimed(conn, "bad", max_retries=0, id=old())
    await finish(conn, worker, [decide(failed, worker.id, PermanentError("no"), policy_of(None))])
    worker, retried = await given_claimed(conn, "again", max_retries=5, id=old())
    await finish(conn, worker, [decide(retried, worker.id, ValueError("no"), policy_of(None))])
    await conn.execute("update atlas.jobs set next_retry_at = null where id = $1", retried.id)
    [retried] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, retried)])
    queued = await given_job(conn, id=old())
    await age(conn, days=0)

    assert await file_all(pool) == 0
    assert set((await places(conn)).values()) == {"jobs"}
    assert set(await places(conn)) == {failed.id, retried.id, queued}


async def test_a_day_of_history_is_dropped_with_its_counts_when_it_is_past_its_age(conn, pool):
    one, other = await given_tenant(conn), await given_tenant(conn, "other")
    ids = {tenant: sorted([await given_success(conn, tenant, id=old()) for _ in range(3)]) for tenant in (one, other)}
    await age(conn)
    young = await given_success(conn, one, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 7
    assert await count_jobs(conn)

    assert await drop_all(pool) == [6]
    assert list(await places(conn)) == [young]
    assert [tuple(row) for row in await conn.fetch(PRUNED)] == [
        (tenant, "3", '{"succeeded": 3}', str(ids[tenant][0]), str(ids[tenant][-1])) for tenant in sorted(ids)
    ]
    assert await cross_check(conn) == []
    while await meter_usage(conn):
        pass
    assert await conn.fetchval("select sum(jobs) from atlas.job_counts") == 1


@pytest.mark.parametrize(("days", "left"), [(100, "jobs_history_100_"), (None, "jobs_history_kept_"), (2, None)])
async def test_a_tenant_that_changes_its_age_keeps_its_jobs_for_that_long(conn, pool, days, left):
    tenant = await given_tenant(conn)
    job_id = await given_success(conn, tenant, id=old())
    await age(conn, days=40)
    assert await file_all(pool) == 1
    await keep(conn, tenant, jobs=days)

    assert await drop_all(pool) == [], "it holds a job that is not kept for 30 days"
    await file_all(pool)
    await sweep(pool)
    assert [place[: len(left or "")] for place in (await places(conn)).values()] == ([left] if left else [])
    assert await drop_all(pool) == [0]
    assert (await get_job(conn, job_id) is not None) == (left is not None)


async def test_a_reader_delays_a_drop_and_no_claim_waits_for_it(conn, pool):
    await given_success(conn, id=old())
    await age(conn)
    await file_all(pool)
    async with pool.acquire() as reader, reader.transaction():
        await reader.fetch(PLACES)
        drop = asyncio.create_task(drop_all(pool))
        while not await conn.fetchval(
            "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and not granted"
        ):
            assert not drop.done()
        await asyncio.wait_for(given_claimed(conn, "meanwhile"), 1)
        assert not drop.done()
        assert await drop == []
    assert await drop_all(pool) == [1]


async def test_a_move_that_breaks_off_leaves_each_job_in_one_place(conn, pool, owner, database_url):
    ids = {await given_success(conn, id=old()) for _ in range(3)}
    await age(conn, days=0)
    tenant_id = await conn.fetchval("select tenant_id from atlas.jobs limit 1")
    mover = await connect(database_url)
    await mover.execute("begin")
    assert await mover.fetchval(MOVED, tenant_id) == 3
    assert set((await places(conn)).values()) == {"jobs"}
    await owner.execute("select pg_terminate_backend($1)", mover.get_server_pid())
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await mover.execute("commit")
    mover.terminate()
    assert await places(conn) == dict.fromkeys(ids, "jobs")
    assert await file_all(pool) == 3
    assert set(await places(conn)) == ids


@pytest.mark.parametrize("jobs", [1, 2])
async def test_the_id_of_a_job_in_history_is_taken(conn, pool, jobs):
    job_id = await given_success(conn, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 1

    with pytest.raises(AtlasError, match="is taken by another job"):
        await enqueue_many(conn, [NewJob("again", {}, id=job_id), NewJob("again", {})][:jobs], actor=DANA)
    with pytest.raises(AtlasError, match="is taken by another job"):
        await enqueue(conn, NewJob("again", {}, id=job_id), actor=DANA)


async def test_history_is_behind_row_level_security_and_leaves_with_its_tenant(conn, pool):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    for tenant in (mine, other):
        await given_success(conn, tenant, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 2

    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        await conn.execute("select set_config('atlas.tenant', $1, true)", str(mine))
        assert [row["tenant_id"] for row in await conn.fetch("select tenant_id from atlas.jobs")] == [mine]
    lines = await conn.fetch("select t.name, l from atlas.tenant_tables() t, atlas.tenant_rows($1, t.name) l", mine)
    names = [line["name"] for line in lines]
    assert names.count("jobs") == 1
    assert not any(name.startswith("jobs_history") for name in names)
