"""The watchdog's eyes: what is amiss is found with its name, and an orderly Atlas has nothing to tell."""

import pytest

from atlas.engine.alerts import look, read_findings, save_findings
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs import switch
from atlas.engine.jobs.lease import reap, retire_worker
from atlas.engine.workflows.intents import request_workflow, take_intents
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease
from tests.support import DANA, given_tenant


@pytest.fixture(autouse=True)
async def online(conn) -> None:
    await switch(conn, online=True, actor=DANA)


async def kinds(conn) -> list[tuple[str, str]]:
    return [(one.kind, one.subject) for one in await look(conn)]


async def hours_pass(conn) -> None:
    """The gate was turned, and intents were asked for, a while ago."""
    await conn.execute("update atlas.system_state set updated_at = updated_at - interval '1 hour'")
    await conn.execute(
        "update atlas.intents set created_at = created_at - interval '1 hour', claimed_at = claimed_at - interval '1 hour'"
    )


async def test_an_orderly_atlas_has_nothing_to_tell(conn):
    worker = await given_worker(conn)
    await given_job(conn)
    await retire_worker(conn, worker.id)
    assert await look(conn) == []


async def test_a_worker_that_fell_silent_is_told_until_it_is_old_news(conn):
    worker, _ = await given_claimed(conn)
    await lose_lease(conn, worker)
    before = await kinds(conn)
    await reap(conn)
    after = await kinds(conn)
    await conn.execute(
        "update atlas.job_workers set dead_at = dead_at - interval '1 hour', lease_expires_at = lease_expires_at - interval '1 hour'"
    )

    assert before == after == [("worker_lost", worker.id)]
    assert await kinds(conn) == []


async def test_a_host_that_is_silent_while_jobs_wait_for_it_is_told(conn):
    tenant = await given_tenant(conn)
    busy = await add_host(conn, tenant_id=tenant, name="attic", actor=DANA)
    await add_host(conn, tenant_id=tenant, name="cellar", actor=DANA)
    await given_job(conn, tenant_id=tenant, host_id=busy.id)
    assert await kinds(conn) == []
    await conn.execute("update atlas.hosts set created_at = created_at - interval '1 hour'")

    [found] = await look(conn)
    assert (found.kind, found.subject) == ("host_silent", str(busy.id))
    assert found.message == "Host attic of acme was never seen, and jobs wait for it."


async def test_intents_that_nobody_decides_and_the_silent_engine_are_told(conn):
    tenant = await given_tenant(conn)
    await request_workflow(conn, tenant, "WF-010", {}, DANA)
    await hours_pass(conn)
    assert await kinds(conn) == [("engine_silent", "engine"), ("intents_stuck", "intents")]

    await take_intents(conn, "an engine")
    assert await kinds(conn) == []


async def test_an_offline_atlas_leaves_its_intents_alone_and_nobody_is_told(conn):
    tenant = await given_tenant(conn)
    await request_workflow(conn, tenant, "WF-010", {}, DANA)
    await switch(conn, online=False, actor=DANA)
    await hours_pass(conn)
    assert await kinds(conn) == []


@pytest.mark.parametrize(
    ("now", "before", "told"),
    [
        ((100, 60), (1000, 10), True),
        ((100, 60), (0, 0), True),
        ((100, 10), (1000, 0), False),
        ((10, 10), (1000, 0), False),
        ((100, 60), (1000, 550), False),
    ],
)
async def test_a_rise_in_failures_is_told_beside_the_day_before(conn, now, before, told):
    tenant = await given_tenant(conn)
    for (runs, failed), ago in ((now, 0), (before, 5)):
        await conn.execute(
            """insert into atlas.usage_hourly (tenant_id, job_type, hour, runs, failed, succeeded)
               values ($1, 'report.build', date_trunc('hour', clock_timestamp()) - make_interval(hours => $2), $3, $4, $5)""",
            tenant,
            ago,
            runs,
            failed,
            runs - failed,
        )

    assert await kinds(conn) == ([("failures_rise", "acme report.build")] if told else [])


async def test_what_was_found_is_kept_for_everyone_to_read(conn):
    worker, _ = await given_claimed(conn)
    await lose_lease(conn, worker)
    found = await look(conn)
    await save_findings(conn, found, by="a watchdog")
    assert await read_findings(conn) == found

    await save_findings(conn, [], by="a watchdog")
    assert await read_findings(conn) == []
