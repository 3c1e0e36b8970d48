"""Alerts: each problem is found with its subject, and a healthy Atlas has none."""

import pytest

from atlas.engine.alerts import find_alerts, read_findings, save_findings
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.lease import reap, retire_worker
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.intents import request_workflow, take_intents
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease
from tests.support import DANA, given_tenant

pytestmark = pytest.mark.usefixtures("online")


async def kinds(conn) -> list[tuple[str, str]]:
    return [(alert.kind, alert.subject) for alert in await find_alerts(conn)]


async def hours_pass(conn) -> None:
    """The gate was turned, and intents were asked for, a while ago."""
    await conn.execute("update atlas.system_state set updated_at = updated_at - interval '1 hour'")
    await conn.execute(
        "update atlas.intents set created_at = created_at - interval '1 hour', claimed_at = claimed_at - interval '1 hour'"
    )


async def test_a_healthy_atlas_has_no_alerts(conn):
    worker = await given_worker(conn)
    await given_job(conn)
    await retire_worker(conn, worker.id)
    assert await find_alerts(conn) == []


async def test_a_lost_worker_is_an_alert_for_ten_minutes(conn):
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


async def test_a_host_that_is_silent_while_jobs_wait_for_it_is_an_alert(conn):
    tenant = await given_tenant(conn)
    busy = await add_host(conn, tenant_id=tenant, name="attic", actor=DANA)
    await add_host(conn, tenant_id=tenant, name="cellar", actor=DANA)
    await given_job(conn, tenant_id=tenant, host_id=busy.id)
    assert await kinds(conn) == []
    await conn.execute("update atlas.hosts set created_at = created_at - interval '1 hour'")

    [found] = await find_alerts(conn)
    assert (found.kind, found.subject) == ("host_silent", str(busy.id))
    assert found.message == "Host attic of acme was never seen, and jobs wait for it."


async def test_undecided_intents_and_a_silent_engine_are_alerts(conn):
    tenant = await given_tenant(conn)
    await request_workflow(conn, tenant, "WF-010", {}, DANA, allow_unknown=True)
    await hours_pass(conn)
    assert await kinds(conn) == [("engine_silent", "engine"), ("intents_stuck", "intents")]

    await take_intents(conn, "an engine")
    assert await kinds(conn) == []


async def test_the_intents_of_an_offline_atlas_are_no_alert(conn):
    tenant = await given_tenant(conn)
    await request_workflow(conn, tenant, "WF-010", {}, DANA, allow_unknown=True)
    await switch(conn, online=False, actor=DANA)
    await hours_pass(conn)
    assert await kinds(conn) == []


@pytest.mark.parametrize(
    ("now", "before", "rises"),
    [
        ((100, 60), (1000, 10), True),
        ((100, 60), (0, 0), True),
        ((100, 10), (1000, 0), False),
        ((10, 10), (1000, 0), False),
        ((100, 60), (1000, 550), False),
    ],
)
async def test_a_rise_in_failures_over_the_day_before_is_an_alert(conn, now, before, rises):
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

    assert await kinds(conn) == ([("failures_rise", "acme report.build")] if rises else [])


async def test_what_was_found_is_kept_for_everyone_to_read(conn):
    worker, _ = await given_claimed(conn)
    await lose_lease(conn, worker)
    found = await find_alerts(conn)
    await save_findings(conn, found, by="a watchdog")
    assert await read_findings(conn) == found

    await save_findings(conn, [], by="a watchdog")
    assert await read_findings(conn) == []
