"""The holder of the xmin horizon: a session, a prepared transaction, a slot or a standby is named with what ends it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

import asyncpg
import orjson
import pytest

from atlas.cli.doctor.horizon import check_horizon
from atlas.db.pool import connect
from atlas.db.statements import Statement
from atlas.engine.alerts import find_alerts
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import CANCELED, HELD, REAP, reap, retire_worker
from atlas.engine.jobs.lists.counts import update_counts
from atlas.engine.jobs.lists.job_list import LIST, JobFilter, list_jobs, list_page, list_values
from atlas.engine.jobs.lists.newest_active import NewestWindow, find_window
from atlas.engine.jobs.lists.summary import COUNT, COUNTED, NOTHING, summarize
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import succeed
from atlas.engine.metering.overview import read_overview, read_tenants
from atlas.engine.xmin_horizon import HolderKind, HorizonHolder, find_holders, rounded
from atlas.test_databases import TestDatabases
from tests.engine.jobs.given import given_job, given_worker
from tests.pgbouncer import direct_url
from tests.standby import standby_of
from tests.support import DANA, given_tenant

T = TypeVar("T")


@asynccontextmanager
async def session(url: str, *statements: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of another program, which has run these statements."""
    conn = await asyncpg.connect(direct_url(url), server_settings={"application_name": "report"})
    try:
        for statement in statements:
            await conn.execute(statement)
        yield conn
    finally:
        with suppress(OSError):  # A test may have ended it at the server.
            await conn.close()


@asynccontextmanager
async def snapshot(url: str, *, horizon: int) -> AsyncIterator[asyncpg.Connection]:
    """A session with an open snapshot that holds the horizon at this transaction id, or at a later one.

    It would be an earlier one for as long as a transaction of another database runs that began before: tests share
    their server.
    """
    async with session(url) as conn:
        async with asyncio.timeout(60):
            await conn.execute("begin isolation level repeatable read")
            while await conn.fetchval("select pg_snapshot_xmin(pg_current_snapshot())::text::bigint") < horizon:
                await conn.execute("rollback")
                await asyncio.sleep(0.01)
                await conn.execute("begin isolation level repeatable read")
        yield conn


async def next_horizon(conn) -> int:
    """The first transaction id after all that Atlas has changed."""
    return await conn.fetchval("select max(xid::text::bigint) + 1 from atlas.audit_log")


async def holders(conn, kind: HolderKind = "session") -> list[HorizonHolder]:
    """The holders of a kind. Slots and standbys are those of the server, which tests share."""
    return [holder for holder in await find_holders(conn, min_seconds=0) if holder.kind == kind]


async def while_first(conn, pid: int, read: Callable[[], Awaitable[T]]) -> T:
    """What is read while this session is the first of the holders: a standby of another test may come before it."""
    async with asyncio.timeout(60):
        while True:
            before, found, after = await find_holders(conn), await read(), await find_holders(conn)
            if [holder.name for holder in (*before[:1], *after[:1])] == [str(pid)] * 2:
                return found
            await asyncio.sleep(0.1)


async def hour_passes(conn) -> None:
    """What was written up to now happened an hour ago: a holder's age is that of what it keeps."""
    await conn.execute("alter table atlas.audit_log disable trigger user")
    await conn.execute("update atlas.audit_log set created_at = created_at - interval '1 hour'")
    await conn.execute("alter table atlas.audit_log enable trigger user")


async def test_an_open_snapshot_is_named_once_something_changed_after_it_and_its_statement_ends_it(
    conn, owner, database_url
):
    await given_job(conn)
    async with snapshot(database_url, horizon=await next_horizon(conn)) as other:
        unchanged = await holders(conn)
        await given_job(conn)
        [found] = await holders(owner)
        [hidden] = await holders(conn)
        young = [holder for holder in await find_holders(conn) if holder.kind == "session"]
        pid = other.get_server_pid()
        await owner.execute(found.statement)
        async with asyncio.timeout(10):
            while await holders(conn):
                await asyncio.sleep(0.01)

    assert unchanged == young == []
    assert (found.kind, found.name, found.application) == ("session", str(pid), "report")
    assert (found.state, found.is_hidden) == ("idle in transaction", False)
    # The role of the programs sees less of it, and the remedy says how it sees more.
    assert (hidden.name, hidden.state) == (found.name, None if hidden.is_hidden else found.state)
    assert ("grant pg_read_all_stats to atlas_engine" in hidden.remedy) == hidden.is_hidden
    assert found.statement == f"select pg_terminate_backend({pid})"
    assert "application report" in found.cause


async def test_the_transaction_that_writes_is_named_before_those_that_only_saw_it(conn, database_url):
    writes = session(database_url, "create table noted (n int)", "begin", "insert into noted values (1)")
    async with writes as first:
        horizon = await first.fetchval("select pg_current_xact_id()::text::bigint")
        async with snapshot(database_url, horizon=horizon) as second:
            await given_job(conn)
            found = await holders(conn)

    assert [one.name for one in found] == [str(first.get_server_pid()), str(second.get_server_pid())]


async def test_transactions_that_began_since_the_snapshot_that_looks_make_no_holder_older(conn, owner, database_url):
    await given_job(conn)
    horizon = await next_horizon(conn)
    async with snapshot(database_url, horizon=horizon), conn.transaction(isolation="repeatable_read"):
        await conn.execute("select 1")
        for _ in range(5):
            await owner.execute("select pg_current_xact_id()")
        assert await holders(conn) == []


async def test_a_long_transaction_of_short_statements_holds_nothing(conn, database_url):
    async with session(database_url, "begin", "select 1"):
        await given_job(conn)
        assert await holders(conn) == []


async def test_a_prepared_transaction_and_a_forgotten_slot_are_named_with_the_statements_that_end_them(
    conn, database_url
):
    if (await conn.fetchval("show max_prepared_transactions"), await conn.fetchval("show wal_level")) != (
        "5",
        "logical",
    ):
        pytest.skip("the server allows no prepared transactions or no logical slots")
    async with session(database_url, "create table noted (n int)") as other:
        await other.execute("begin; insert into noted values (1); prepare transaction 'dana''s'")
        await given_job(conn)
        [prepared] = await holders(conn, "prepared transaction")
        await other.execute(prepared.statement)
        name = f"forgotten_{other.get_server_pid()}"
        await other.execute(f"select pg_create_logical_replication_slot('{name}', 'pgoutput')")
        try:
            await given_job(conn)
            # Slots of other databases hold the catalogs that all share.
            [slot] = [holder for holder in await holders(conn, "slot") if holder.name == name]
        finally:
            await other.execute(f"select pg_drop_replication_slot('{name}')")

    assert (prepared.kind, prepared.name, prepared.statement) == (
        "prepared transaction",
        "dana's",
        "rollback prepared 'dana''s'",
    )
    assert (slot.kind, slot.catalogs_only, slot.state) == ("slot", True, "not in use")
    assert slot.statement == f"select pg_drop_replication_slot('{name}')"
    assert " and the write-ahead log since" in slot.cause
    assert ",," not in slot.cause


async def test_a_slot_that_holds_the_catalogs_alone_is_no_reason_why_a_job_waits(
    conn, owner, database_url, monkeypatch
):
    await switch(conn, online=True, actor=DANA)
    await given_worker(conn, "report.build")
    monkeypatch.setattr("atlas.engine.jobs.explain.explain_job.SLOW_DEAD_ROWS", 0)
    async with session(database_url, "begin isolation level repeatable read", "select 1") as other:
        job_id = await given_job(conn)
        await hour_passes(owner)
        await owner.execute("update atlas.jobs set created_at = created_at - interval '1 hour'")
        [holder] = [one for one in await find_holders(conn) if one.name == str(other.get_server_pid())]

        async def as_of_catalogs(conn):
            return [replace(holder, catalogs_only=True)]

        monkeypatch.setattr("atlas.engine.jobs.explain.explain_job.find_holders", as_of_catalogs)
        assert (await explain(conn, job_id)).reason == "next"


@pytest.mark.long
async def test_a_standby_with_feedback_is_named_while_a_query_runs_there(conn, database_url, databases: TestDatabases):
    with standby_of(databases) as standby:
        standby.configure(hot_standby_feedback="on", wal_receiver_status_interval="1s")
        standby.reload()
        reader = await connect(standby.url(database_url))
        try:
            await reader.execute("begin isolation level repeatable read; select count(*) from atlas.jobs")
            async with asyncio.timeout(30):
                while not (found := await holders(conn, "standby")):
                    await given_job(conn)
                    await asyncio.sleep(0.2)
        finally:
            await reader.close()

    assert "On that standby" in found[0].remedy


async def test_a_held_horizon_is_an_alert_and_the_reason_why_a_due_job_waits(conn, owner, database_url, monkeypatch):
    await switch(conn, online=True, actor=DANA)
    await given_worker(conn, "report.build")
    async with session(database_url, "begin isolation level repeatable read", "select 1") as other:
        job_id = await given_job(conn)
        await hour_passes(owner)
        await owner.execute("update atlas.jobs set created_at = created_at - interval '1 hour'")
        pid = other.get_server_pid()
        alerts = await while_first(conn, pid, lambda: find_alerts(conn))
        [alert] = [alert for alert in alerts if alert.subject == f"session {pid}"]
        diagnosis = await while_first(conn, pid, lambda: check_horizon(conn))
        with_few_dead_rows = await explain(conn, job_id)
        monkeypatch.setattr("atlas.engine.jobs.explain.explain_job.SLOW_DEAD_ROWS", 0)
        with_many = await while_first(conn, pid, lambda: explain(conn, job_id))
        of_tenant = await explain(conn, job_id, tenant_id=SYSTEM_TENANT)

    assert alert.kind == "horizon_held"
    assert f"select pg_terminate_backend({pid})" in alert.message
    assert (diagnosis.verdict, diagnosis.found[:40]) == ("warn", alert.message[:40])
    # Operators see who it is; a tenant does not.
    assert [one.reason for one in (with_few_dead_rows, with_many, of_tenant)] == ["next", "horizon", "next"]
    assert f"select pg_terminate_backend({pid})" in with_many.text


async def test_the_sweep_and_the_look_for_cancellations_read_no_entries_of_finished_jobs(conn, database_url):
    await switch(conn, online=True, actor=DANA)
    worker = await given_worker(conn, "report.build")
    async with session(database_url, "begin isolation level repeatable read", "select 1"):
        await enqueue_many(conn, [NewJob("report.build") for _ in range(1000)], actor=DANA)
        jobs = await claim(conn, worker, limit=1000)
        await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED") for job in jobs])
        living = await pages(conn, REAP, limit=100)
        of_worker = await pages(conn, CANCELED, worker=worker.id, ids=[jobs[0].id])
        walked = await pages(conn, HELD, worker=worker.id)
        await retire_worker(conn, worker.id)
        await reap(conn)
        dead = await pages(conn, REAP, limit=100)

    # The rows of a thousand entries are on some forty pages.
    assert walked > 30 > max(living, of_worker, dead)


@pytest.mark.long
async def test_counts_and_explanations_beside_a_held_horizon_read_the_newest_jobs_and_are_the_same(
    conn, pool, owner, database_url, monkeypatch
):
    await switch(conn, online=True, actor=DANA)
    worker = await given_worker(conn, "report.build")
    acme = await given_tenant(conn)
    async with session(database_url, "begin isolation level repeatable read", "select 1") as other:
        await enqueue_many(conn, [NewJob("report.build") for _ in range(1000)], actor=DANA)
        jobs = await claim(conn, worker, limit=1000)
        await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED") for job in jobs[3:]])
        await given_job(conn, "report.send", delay=timedelta(hours=1))
        await given_job(conn, "report.send", tenant_id=acme)
        waits = [await given_job(conn, tenant_id=tenant) for tenant in (acme, acme, SYSTEM_TENANT)]
        await update_counts(pool.acquire)
        await hour_passes(owner)
        along_indexes = await read_all_counts(pool, conn, waits)
        monkeypatch.setattr("atlas.engine.jobs.lists.newest_active.SLOW_DEAD_ROWS", 0)
        among_newest = await while_first(conn, other.get_server_pid(), lambda: read_all_counts(pool, conn, waits))
        walked = await pages(conn, COUNT, tenant_id=None, most=COUNTED)
        by_key = await pages(conn, COUNT, tenant_id=None, most=NOTHING)

    assert among_newest == along_indexes
    assert walked > 30 > by_key


async def test_a_tenants_lists_and_explanations_beside_a_held_horizon_read_the_newest_jobs_and_are_the_same(
    conn, owner, database_url, monkeypatch
):
    await switch(conn, online=True, actor=DANA)
    worker = await given_worker(conn, "report.build")
    acme = await given_tenant(conn)
    monkeypatch.setattr("atlas.engine.jobs.lists.newest_active.SLOW_DEAD_ROWS", 0)
    async with session(database_url, "begin isolation level repeatable read", "select 1") as other:
        await enqueue_many(conn, [NewJob("report.build", {}, acme) for _ in range(1000)], actor=DANA)
        jobs = await claim(conn, worker, limit=1000)
        await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED") for job in jobs[3:]])
        waits = [await given_job(conn, tenant_id=tenant) for tenant in (acme, acme, SYSTEM_TENANT)]
        await hour_passes(owner)
        window = await while_first(conn, other.get_server_pid(), lambda: find_window(conn))
        monkeypatch.setattr("atlas.engine.jobs.lists.newest_active.MAX_READ", 3)
        narrow = await while_first(conn, other.get_server_pid(), lambda: find_window(conn))
        async with conn.transaction():
            await conn.execute(f"set local atlas.tenant = '{acme}'; set local role atlas_tenant")
            along_indexes, among_newest = [await read_of_tenant(conn, acme, waits[1], of) for of in (None, window)]
            first = await list_page(conn, JobFilter(acme, ("queued",)), window=narrow)
            running = await list_page(conn, JobFilter(acme, ("running",)), window=narrow)
            costs = [await list_costs(conn, acme, of) for of in (None, narrow)]

    assert window is not None
    assert window.since is None
    assert among_newest == along_indexes
    # The jobs that run are older than the newest three.
    assert {job.id for job in first.jobs} == {*waits[:2]}
    assert (running.jobs, running.searched_back_to, running.next_before) == ([], narrow.since, first.next_before)
    assert min(costs[0]) > 30 > max(costs[1])


async def read_of_tenant(conn, tenant: UUID, job_id: UUID, window: NewestWindow | None) -> list[object]:
    """What a tenant is shown of its active jobs."""
    filters = [JobFilter(tenant, of) for of in (("queued",), ("running",), ("queued", "running"), None)]
    listed = [[job.id for job in (await list_page(conn, of, window=window)).jobs] for of in filters]
    explained = await explain(conn, job_id, tenant_id=tenant, window=window)
    return [listed, explained.reason, explained.numbers.get("ahead")]


async def list_costs(conn, tenant: UUID, window: NewestWindow | None) -> list[int]:
    """How many pages the lists of queued and of running jobs of a tenant read."""
    found = []
    for status in ("queued", "running"):
        values = list_values(JobFilter(tenant, (status,)), before=None, limit=50)
        if window is not None:
            values |= {"lists": ["active"], "active_after": window.after}
        found.append(await pages(conn, LIST, **values))
    return found


async def read_all_counts(pool, conn, job_ids: list[UUID]) -> list[object]:
    """What operators are shown of active jobs: counts of all and of a tenant, types, tenants, and why jobs wait."""
    summaries = [
        await summarize(pool.acquire, pool.acquire, pool.acquire, tenant_id=of) for of in (None, SYSTEM_TENANT)
    ]
    assert all(not summary.estimated and summary.oldest_queued_seconds is not None for summary in summaries)
    overview = await read_overview(pool.acquire, pool.acquire, pool.acquire)
    types = [(one.job_type, one.queued, one.running) for one in overview.types]
    reasons = [await explain(conn, job_id) for job_id in job_ids]
    listed = [[job.id for job in await list_jobs(conn, JobFilter(statuses=of))] for of in (("queued",), ("running",))]
    return [
        [one.counts for one in summaries],
        types,
        await read_tenants(conn),
        [(reason.reason, reason.numbers.get("ahead")) for reason in reasons],
        listed,
    ]


async def pages(conn, query: Statement, **values: object) -> int:
    """How many pages a statement reads."""
    transaction = conn.transaction()
    await transaction.start()
    # The first call of a session reads the catalogs too.
    for _ in range(2):
        found = await conn.fetchval(f"explain (analyze, buffers, format json)\n{query.sql}", *query.bind(values))
    await transaction.rollback()
    return orjson.loads(found)[0]["Plan"]["Shared Hit Blocks"]


def test_a_growing_number_changes_its_rounded_form_now_and_then():
    assert [rounded(count) for count in (0, 7, 19, 123_456, 199_999)] == [0, 7, 10, 100_000, 100_000]
