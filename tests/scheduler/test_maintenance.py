"""Maintenance: sweeps, alerts, metering before retention, each harmless in any number."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

import atlas.scheduler.maintenance
from atlas.engine.alerts import read_findings
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.switches.gate import read_gate, switch
from atlas.engine.metering.usage import read_usage
from atlas.engine.retention.retention import id_at
from atlas.scheduler.maintenance import Maintenance
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease, make_due, success
from tests.support import DANA, given_tenant


async def test_a_sweep_takes_back_lost_jobs_makes_due_ones_ready_and_ends_an_offline_that_is_over(pool, conn):
    worker, lost = await given_claimed(conn)
    await lose_lease(conn, worker)
    delayed = await given_job(conn, delay=timedelta(hours=1))
    await make_due(conn, delayed)
    await switch(conn, online=False, actor=DANA, until=timedelta(hours=2))
    maintenance = [Maintenance(pool, asyncio.Event()) for _ in range(3)]

    await asyncio.gather(*(one.sweep() for one in maintenance))
    assert not (await read_gate(conn)).online
    await conn.execute(
        "update atlas.system_state set value = jsonb_set(value, '{until}', to_jsonb(clock_timestamp() - interval '1 second'))"
        " where key = 'atlas_online'"
    )
    await asyncio.gather(*(one.sweep() for one in maintenance))

    assert (await read_gate(conn)).online
    assert await conn.fetchval("select status::text from atlas.jobs where id = $1", lost.id) == "queued"
    assert await conn.fetchval("select next_retry_at from atlas.jobs where id = $1", delayed) is None
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'LEASE_EXPIRED'") == 1
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'ATLAS_ONLINE'") == 2


async def test_the_watchdog_keeps_what_it_finds_and_takes_it_back_when_it_is_over(pool, conn):
    worker, _ = await given_claimed(conn)
    await lose_lease(conn, worker)
    maintenance = Maintenance(pool, asyncio.Event())
    await maintenance.watch()
    assert [(finding.kind, finding.subject) for finding in await read_findings(conn)] == [("worker_lost", worker.id)]

    await conn.execute("delete from atlas.job_workers")
    await maintenance.watch()
    assert await read_findings(conn) == []


async def test_jobs_are_counted_once_and_then_by_their_events(pool, conn, monkeypatch):
    counted = []
    monkeypatch.setattr(
        atlas.scheduler.maintenance, "count_jobs", lambda conn: counted.append(conn) or count_jobs(conn)
    )
    maintenance = Maintenance(pool, asyncio.Event())
    for _ in range(3):
        await given_job(conn)
        await maintenance.meter()

    assert await conn.fetchval("select sum(jobs) from atlas.job_counts") == 3
    assert len(counted) == 1


async def test_usage_is_metered_before_retention_removes_it(pool, conn):
    worker = await given_worker(conn)
    old = datetime.now(UTC) - timedelta(days=40)
    for n in range(30):
        await given_job(conn, id=UUID(int=id_at(old).int + n))
    for job in await claim(conn, worker, limit=30):
        await finish(conn, worker, [success(worker, job)])
    await conn.execute("update atlas.jobs set finished_at = $1, started_at = $1", old)

    await asyncio.gather(*(Maintenance(pool, asyncio.Event()).prune() for _ in range(3)))

    assert await conn.fetchval("select count(*) from atlas.jobs") == 0
    assert sum(one.runs for one in await read_usage(conn)) == 30


@pytest.mark.long
async def test_a_sweep_of_many_tenants_rests_no_longer_than_it_works(pool, conn, monkeypatch):
    rests: list[float] = []

    async def note(_event: asyncio.Event, *, within: float) -> bool:
        rests.append(within)
        return False

    monkeypatch.setattr(atlas.scheduler.maintenance, "wait_for", note)
    for number in range(20):
        await given_tenant(conn, f"t{number}")
    began = time.monotonic()
    await Maintenance(pool, asyncio.Event()).prune()
    assert 0 < sum(rests) <= time.monotonic() - began
