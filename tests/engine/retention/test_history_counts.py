"""What is stored of a day of history is what it holds, whatever came back from it, so that its drop need not count."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.db.pool import connect
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.retention.history import return_jobs
from atlas.engine.retention.retention import read_ages
from tests.engine.retention.test_history import (
    KILLER,
    drop_all,
    file_all,
    given_failure,
    given_run,
    given_success,
    places,
)
from tests.engine.retention.test_history import online as online
from tests.engine.retention.test_retention import age, keep, old
from tests.support import DANA, given_tenant

PARTS = """
select h.part, bool_and(c.is_move) as is_known
from (select distinct part from atlas.history_contents) h left join atlas.history_changes c on c.part = h.part
group by h.part order by h.part"""
COUNTS = "select tenant_id, jobs, meta from atlas.count_history_part($1) order by tenant_id"
PRUNED = "select sum((meta->>'jobs')::int)::int from atlas.audit_log where action = 'JOBS_PRUNED'"


async def stored_and_counted(conn) -> dict[str, tuple[bool, list[Any], list[Any]]]:
    """Of each part of history whether its drop records what is stored of it, that, and what it would count."""
    found = {}
    for part, is_known in await conn.fetch(PARTS):
        stored = [tuple(row) for row in await conn.fetch(COUNTS, part)]
        doubt = conn.transaction()
        await doubt.start()
        await conn.execute("insert into atlas.history_changes (part, is_move) values ($1, false)", part)
        found[part] = (is_known, stored, [tuple(row) for row in await conn.fetch(COUNTS, part)])
        await doubt.rollback()
    return found


async def recorded(owner, *, is_known: bool = True) -> list[dict[str, Any]]:
    """What the drops of all parts would record, from what is stored of them. Counting the tables says the same."""
    facts = []
    for known, stored, counted in (await stored_and_counted(owner)).values():
        assert (known, stored) == (is_known, counted)
        facts += [{"tenant": tenant, **orjson.loads(meta)} for tenant, _, meta in stored]
    return facts


async def given_filed(conn, pool, *tenants: UUID) -> list[UUID]:
    """Of each tenant two failed jobs, a run with two steps and a plain job in one day of history that is past its age."""
    jobs = []
    for tenant in tenants:
        jobs += [await given_failure(conn, tenant_id=tenant) for _ in range(2)]
        jobs += [await given_run(conn, tenant_id=tenant), await given_success(conn, tenant, id=old())]
    await age(conn)
    assert await file_all(pool) == len(jobs)
    return jobs


@pytest.mark.long
async def test_what_comes_back_is_subtracted_and_what_is_filed_anew_is_added(conn, pool, owner):
    one, other = await given_tenant(conn), await given_tenant(conn, "other")
    jobs = await given_filed(conn, pool, one, other)
    assert [facts["jobs"] for facts in await recorded(owner)] == [4, 4]

    await retry_now(conn, jobs[0], actor=DANA)
    await delete(conn, jobs[2], actor=DANA)
    await delete(conn, jobs[7], actor=DANA)
    await conn.execute("update atlas.jobs set input = '{}'")
    of_one, of_other = sorted(await recorded(owner), key=lambda facts: facts["tenant"] == other)
    assert (of_one["by_status"], of_one["attempts"], of_one["steps"]) == ({"succeeded": 1, "failed": 1}, 1, 0)
    assert (of_other["by_status"], of_other["attempts"], of_other["steps"]) == ({"failed": 3}, 3, 2)

    await conn.execute("select atlas.return_jobs($1)", [*jobs[:4], jobs[4]])
    assert [(facts["tenant"], facts["jobs"]) for facts in await recorded(owner)] == [(other, 2)]
    assert await file_all(pool) == 3
    assert sum(facts["jobs"] for facts in await recorded(owner)) == 5
    await conn.execute("select atlas.return_jobs($1)", [jobs[1]])
    assert sum(facts["jobs"] for facts in await recorded(owner)) == 4
    assert await drop_all(pool) == [4]
    assert await cross_check(conn) == []


@pytest.mark.long
async def test_the_jobs_of_a_tenant_that_changes_its_age_are_subtracted(conn, pool, owner):
    one, other = await given_tenant(conn), await given_tenant(conn, "other")
    await given_filed(conn, pool, one, other)
    await keep(conn, one, jobs=100)
    [ages] = [ages for ages in await read_ages(pool) if ages.tenant_id == one]
    async for returned in return_jobs(pool, ages, batch=1):
        assert returned == 1
        assert {facts["jobs"] for facts in await recorded(owner) if facts["tenant"] == other} == {4}
    assert [facts["tenant"] for facts in await recorded(owner)] == [other]


@pytest.mark.long
async def test_a_job_that_is_deleted_otherwise_is_counted_by_the_drop(conn, pool, owner):
    """Nobody but the owner of the tables can say that a deletion is counted."""
    tenant = await given_tenant(conn)
    jobs = await given_filed(conn, pool, tenant)
    note = await owner.fetchval("select id from atlas.history_changes")
    await conn.execute(
        "select set_config('atlas.is_counting', 'on', false), set_config('atlas.history_note', $1, false)", str(note)
    )
    await conn.execute("delete from atlas.jobs where id = $1", jobs[0])
    assert [facts["jobs"] for facts in await recorded(owner, is_known=False)] == [3]
    assert await drop_all(pool) == [3]
    assert await cross_check(conn) != []


@pytest.mark.long
async def test_returns_wait_for_no_other_and_a_drop_that_meets_them_records_what_is_left(
    conn, pool, owner, database_url
):
    tenant = await given_tenant(conn)
    jobs = (await given_filed(conn, pool, tenant))[:3] + await given_filed(
        conn, pool, await given_tenant(conn, "other")
    )
    callers = [await connect(database_url) for _ in range(4)]
    try:
        transactions = [caller.transaction() for caller in callers]
        async with asyncio.timeout(20):
            for caller, transaction, job_id in zip(callers, transactions, jobs, strict=False):
                await transaction.start()
                await (delete if job_id == jobs[1] else retry_now)(caller, job_id, actor=DANA)
        drop = asyncio.create_task(drop_all(pool))
        while not await conn.fetchval(
            "select count(*) from pg_locks where mode = 'ShareRowExclusiveLock' and not granted"
        ):
            assert not drop.done()
        await transactions[0].rollback()
        for transaction in transactions[1:]:
            await transaction.commit()
        [dropped] = await drop
    finally:
        for caller in callers:
            await caller.close()
    assert dropped == 8 - 3 == await conn.fetchval(PRUNED)
    assert await cross_check(conn) == []
    assert len(await places(conn)) == 2, "two were retried"


@pytest.mark.long
async def test_a_session_that_is_killed_at_any_statement_leaves_the_numbers_as_they_were_or_as_they_are_then(
    conn, pool, owner, database_url
):
    tenant = await given_tenant(conn)
    jobs = await given_filed(conn, pool, tenant, await given_tenant(conn, "other"))
    await owner.execute(KILLER)
    at, killed = 0, 0
    while True:
        at += 1
        await owner.execute(f"alter sequence atlas.statement_count restart with 1; update atlas.kill set at = {at}")
        caller = await connect(database_url)
        try:
            await caller.execute("select atlas.return_jobs($1)", jobs[:6])
            await caller.close()
            break
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            caller.terminate()
            killed += 1
        assert [facts["jobs"] for facts in await recorded(owner)] == [4, 4]
    assert killed >= 10, "two kills around each statement"
    assert [facts["jobs"] for facts in await recorded(owner)] == [2]
